#!/bin/sh
# Generates the Go stubs from the protocol files into ./pumicev1. Needs protoc (or, as PROTOC,
# "python -m grpc_tools.protoc") and the go command.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
protos=${1:-$here/../../../proto}
out=${2:-$here}
export GOBIN="$out/bin"
go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11
go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
options=""
for file in "$protos"/pumice/v1/*.proto; do
  name="Mpumice/v1/$(basename "$file")=example.com/frontend/pumicev1"
  options="$options --go_opt=$name --go-grpc_opt=$name"
done
# shellcheck disable=SC2086
PATH="$GOBIN:$PATH" ${PROTOC:-protoc} -I "$protos" \
  --go_out="$out" --go_opt=module=example.com/frontend \
  --go-grpc_out="$out" --go-grpc_opt=module=example.com/frontend \
  $options "$protos"/pumice/v1/*.proto
