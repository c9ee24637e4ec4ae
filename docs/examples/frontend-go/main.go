// A frontend in Go: requests the scheduling decisions for a manifest from a core.
//
// The core parses the YAML, generates the pods of workloads, and returns a result for each job.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pumice "example.com/frontend/pumicev1"
)

// request returns a request for the manifest alone, with its nodes and queues, or on a copy of a live cluster.
func request(file, cluster string) (*pumice.ScheduleRequest, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	objects := &pumice.ObjectSet{Manifests: []*pumice.Manifest{{Source: file, Text: string(text)}}}
	// A retry uses the same id and gets the same response.
	id := make([]byte, 16)
	rand.Read(id)
	asked := &pumice.ScheduleRequest{RequestId: hex.EncodeToString(id), OwnOnly: true}
	if cluster == "" {
		asked.Source = &pumice.ScheduleRequest_Inline{Inline: &pumice.InlineSource{Objects: objects}}
	} else {
		live := &pumice.ClusterSource{Cluster: cluster, Hypothetical: objects}
		asked.Source = &pumice.ScheduleRequest_Cluster{Cluster: live}
	}
	return asked, nil
}

func show(answer *pumice.ScheduleResponse) {
	for _, problem := range answer.Problems {
		fmt.Printf("%s: %s %s: %s: %s\n", problem.Source, problem.Kind, problem.Key, problem.Field, problem.Problem)
	}
	for _, job := range answer.Jobs {
		fmt.Printf("%s: %s\n", strings.TrimPrefix(job.Verdict.String(), "JOB_VERDICT_"), job.Sentence)
		for _, pod := range job.Placed {
			fmt.Printf("  %s on %s\n", pod.Pod, pod.Node)
		}
		for _, evicted := range job.Evictions {
			fmt.Printf("  evicts %s/%s from %s\n", evicted.Namespace, evicted.Name, evicted.Node)
		}
		// Amounts of the protocol are in thousandths: one GPU is 1000.
		for _, lack := range job.Shortages {
			if lack.GetQueue() == "" {
				fmt.Printf("  %s: %d wanted, %d free\n", lack.Resource, lack.Wanted/1000, lack.Free/1000)
			}
		}
	}
}

func main() {
	address, file := os.Getenv("PUMICE_ADDRESS"), "manifest.yaml"
	if address == "" {
		address = "127.0.0.1:7461"
	}
	if len(os.Args) > 1 {
		file = os.Args[1]
	}
	asked, err := request(file, os.Getenv("PUMICE_CLUSTER"))
	if err != nil {
		log.Fatal(err)
	}
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := pumice.NewSchedulingServiceClient(connection).Schedule(ctx, asked)
	if err != nil {
		log.Fatal(err)
	}
	show(answer)
}
