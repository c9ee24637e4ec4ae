#!/bin/sh
# Generates the Go stubs from the protocol files into ./pumicev1. Needs the go command (1.25 or newer) and
# protoc 27 or newer; without protoc, PROTOC="python -m grpc_tools.protoc" after "pip install grpcio-tools".
set -eu
here=$(cd "$(dirname "$0")" && pwd)
protos=${1:-$here/../../../proto}
out=${2:-$here}
command -v go >/dev/null || { echo "generate.sh: the go command is missing; see https://go.dev/doc/install" >&2; exit 1; }
# shellcheck disable=SC2086
command -v ${PROTOC:-protoc} >/dev/null || {
  echo "generate.sh: protoc is missing; install it, or set PROTOC='python -m grpc_tools.protoc'" >&2
  exit 1
}
export GOBIN="$out/bin"
go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11
go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
options=""
for file in "$protos"/pumice/v1/*.proto; do
  name="Mpumice/v1/$(basename "$file")=example.com/adapter/pumicev1"
  options="$options --go_opt=$name --go-grpc_opt=$name"
done
# shellcheck disable=SC2086
PATH="$GOBIN:$PATH" ${PROTOC:-protoc} -I "$protos" \
  --go_out="$out" --go_opt=module=example.com/adapter \
  --go-grpc_out="$out" --go-grpc_opt=module=example.com/adapter \
  $options "$protos"/pumice/v1/*.proto
