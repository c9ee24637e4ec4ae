// A frontend in Go: asks a core where two pods that must start together would go.
//
// It brings its own nodes and queues along, so it works with any core and any platform.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pumice "example.com/frontend/pumicev1"
)

// Units are those of the wire: thousandths of a CPU, bytes, pods.
func amounts(milliCPU, memoryBytes, pods int64) map[string]int64 {
	return map[string]int64{"cpu": milliCPU, "memory": memoryBytes, "pods": pods}
}

func request(pods int) *pumice.ScheduleRequest {
	const gib = 1 << 30
	whole := amounts(4000, 16*gib, 110)
	objects := &pumice.ObjectSet{
		Nodes:     []*pumice.Node{{Name: "n1", Allocatable: whole, Capacity: whole}},
		Queues:    []*pumice.Queue{{Name: "default", State: pumice.QueueState_QUEUE_STATE_OPEN}},
		PodGroups: []*pumice.PodGroup{{Namespace: "team", Name: "job", MinMember: int32(pods)}},
	}
	for number := range pods {
		objects.Pods = append(objects.Pods, &pumice.Pod{
			Namespace: "team",
			Name:      fmt.Sprintf("job-%d", number),
			GroupName: "job",
			Phase:     pumice.PodPhase_POD_PHASE_PENDING,
			Spec:      &pumice.PodSpec{SchedulerName: "volcano", Requests: amounts(1000, gib, 1)},
		})
	}
	// A retry uses the same id and gets the same answer.
	id := make([]byte, 16)
	rand.Read(id)
	return &pumice.ScheduleRequest{
		RequestId: hex.EncodeToString(id),
		Source:    &pumice.ScheduleRequest_Inline{Inline: &pumice.InlineSource{Objects: objects}},
	}
}

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
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := pumice.NewSchedulingServiceClient(connection).Schedule(ctx, request(2))
	if err != nil {
		log.Fatal(err)
	}
	for _, decision := range answer.Decisions {
		if bind := decision.GetBind(); bind != nil {
			fmt.Printf("bind %s/%s to %s\n", bind.Namespace, bind.Name, bind.Node)
		}
	}
	for _, wait := range answer.Waits {
		fmt.Printf("wait %s: %v\n", wait.Job, wait.Reasons)
	}
}
