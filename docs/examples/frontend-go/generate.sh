#!/bin/sh
# Generates the Go stubs from the protocol files into ./pumicev1. Needs the go command, and one of: the
# command in PROTOC, protoc, or Python with grpcio-tools.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
protos=${1:-$here/../../../proto}
out=${2:-$here}
if [ -z "${PROTOC:-}" ]; then
  if command -v protoc >/dev/null; then
    PROTOC=protoc
  else
    for python in "$here/../../../.venv/bin/python" python3 python; do
      if "$python" -c "import grpc_tools" 2>/dev/null; then
        PROTOC="$python -m grpc_tools.protoc"
        break
      fi
    done
  fi
fi
if [ -z "${PROTOC:-}" ]; then
  echo "generate.sh: protoc is missing; install it, or run 'pip install grpcio-tools'" >&2
  exit 1
fi
export GOBIN="$out/bin"
go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11
go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
options=""
for file in "$protos"/pumice/v1/*.proto; do
  name="Mpumice/v1/$(basename "$file")=example.com/frontend/pumicev1"
  options="$options --go_opt=$name --go-grpc_opt=$name"
done
# shellcheck disable=SC2086
PATH="$GOBIN:$PATH" $PROTOC -I "$protos" \
  --go_out="$out" --go_opt=module=example.com/frontend \
  --go-grpc_out="$out" --go-grpc_opt=module=example.com/frontend \
  $options "$protos"/pumice/v1/*.proto
