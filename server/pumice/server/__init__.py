"""The service around the engine: gRPC, clock, recording, metrics and access control."""
