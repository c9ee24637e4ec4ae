module example.com/adapter

go 1.25

require (
	golang.org/x/crypto v0.45.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20251103181224-f26f9409b101
	google.golang.org/grpc v1.77.0
	google.golang.org/protobuf v1.36.11
)
