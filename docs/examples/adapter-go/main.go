// An adapter in Go, based on docs/protocol.md. The cluster is simulated in memory: two nodes, a queue, and a job
// for each line "job NAME SIZE" on standard input. The program prints the pods that it binds.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log"
	"math"
	mathrand "math/rand"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pumice "example.com/adapter/pumicev1"
)

// next is the step after the end of a stream.
type next int

const (
	again next = iota
	higherEpoch
	stop
)

func main() {
	address := os.Getenv("PUMICE_ADDRESS")
	if address == "" {
		address = "127.0.0.1:7461"
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithCancel(context.Background())
	commands := make(chan func(*Cluster) []key)
	go read(commands, cancel)
	if err := run(ctx, pumice.NewClusterServiceClient(connection), commands); err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

// read turns lines of standard input into changes of the cluster.
func read(commands chan<- func(*Cluster) []key, done func()) {
	defer done()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var name string
		var size int
		if _, err := fmt.Sscanf(lines.Text(), "job %s %d", &name, &size); err != nil {
			log.Printf("invalid line %q; allowed: job NAME SIZE", lines.Text())
			continue
		}
		commands <- func(cluster *Cluster) []key { return cluster.addJob(name, size) }
	}
}

// run serves one stream after another until an error needs a person, or the input ends.
func run(ctx context.Context, client pumice.ClusterServiceClient, commands <-chan func(*Cluster) []key) error {
	cluster := newCluster(2)
	epoch, failures := time.Now().UnixMilli(), 0
	for ctx.Err() == nil {
		// Each stream has a new incarnation, so the core always requests a snapshot.
		hello := &pumice.Hello{
			Cluster: "go", AdapterId: "adapter-go", Incarnation: random(), Epoch: epoch,
			MinProtocol: 1, MaxProtocol: 1, AdapterVersion: "example",
			Capabilities: []pumice.Capability{pumice.Capability_CAPABILITY_EVICT},
		}
		began := time.Now()
		goAway, welcomed, err := converse(ctx, client, hello, cluster, commands)
		if ctx.Err() != nil {
			return nil
		}
		step, wait := afterError(err)
		if goAway != nil {
			step = afterGoAway(goAway)
			err = fmt.Errorf("%v: %s", goAway.Reason, goAway.Message)
		}
		log.Printf("the stream ended: %v", err)
		failures++
		if welcomed && time.Since(began) >= 30*time.Second {
			failures = 1
		}
		switch step {
		case stop:
			if !welcomed {
				return err
			}
		case higherEpoch:
			// An adapter of a real cluster acquires its lease first, and gets the epoch from it.
			epoch = max(epoch, time.Now().UnixMilli()) + 1
		}
		time.Sleep(max(wait, backoff(failures)))
	}
	return nil
}

// backoff doubles from 0.1 s to 10 s, with jitter.
func backoff(failures int) time.Duration {
	seconds := min(10, 0.1*math.Pow(2, float64(failures-1)))
	return time.Duration(seconds * (0.5 + mathrand.Float64()/2) * float64(time.Second))
}

func afterGoAway(goAway *pumice.GoAway) next {
	switch goAway.Reason {
	case pumice.GoAwayReason_GO_AWAY_REASON_REPLACED:
		return stop
	case pumice.GoAwayReason_GO_AWAY_REASON_FENCED:
		return higherEpoch
	}
	return again
}

// afterError returns the step for the reason in the status, or for the code if there is no known reason.
func afterError(err error) (next, time.Duration) {
	found := status.Convert(err)
	var wait time.Duration
	step, known := again, false
	for _, detail := range found.Details() {
		switch held := detail.(type) {
		case *errdetails.RetryInfo:
			wait = held.RetryDelay.AsDuration()
		case *errdetails.ErrorInfo:
			if held.Domain == "pumice.v1" {
				step, known = afterReason(held.Reason)
			}
		}
	}
	if !known {
		step = afterCode(found.Code())
	}
	return step, wait
}

// afterReason implements the table in docs/protocol.md. Each stream of this program has a new incarnation.
func afterReason(reason string) (next, bool) {
	switch reason {
	case "EPOCH_STALE", "EPOCH_TAKEN":
		return higherEpoch, true
	case "MALFORMED_MESSAGE", "INVALID_FIELD", "HELLO_MISSING", "PROTOCOL_VERSION_UNSUPPORTED", "EPOCH_TOO_HIGH",
		"CERTIFICATE_MISSING", "TOKEN_INVALID", "CLUSTER_DENIED", "ROLE_DENIED":
		return stop, true
	case "LIMIT_EXCEEDED", "BUSY", "SHUTTING_DOWN", "HELLO_TIMEOUT", "INTERNAL", "HELLO_REPEATED", "SEQUENCE_NUMBER_INVALID",
		"SEQUENCE_GAP", "INCARNATION_MISMATCH", "SNAPSHOT_EXPECTED", "SNAPSHOT_MARKER_UNEXPECTED",
		"SNAPSHOT_END_MISMATCH", "STATE_LOST":
		return again, true
	}
	return again, false
}

func afterCode(code codes.Code) next {
	switch code {
	case codes.AlreadyExists:
		return higherEpoch
	case codes.InvalidArgument, codes.OutOfRange, codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied:
		return stop
	}
	return again
}

func random() string {
	text := make([]byte, 16)
	rand.Read(text)
	return hex.EncodeToString(text)
}
