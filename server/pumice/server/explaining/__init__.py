"""Why a job or pod stands where it stands: made from what sessions leave, never by a session."""
