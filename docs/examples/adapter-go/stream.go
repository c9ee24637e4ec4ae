package main

import (
	"context"
	"log"
	"time"

	"google.golang.org/protobuf/proto"

	pumice "example.com/adapter/pumicev1"
)

// gang is a gang with the decisions that have arrived.
type gang struct {
	info      *pumice.Gang
	decisions []*pumice.Decision
}

// Stream is one stream, from Hello to its end.
type Stream struct {
	cluster *Cluster
	epoch   int64
	call    pumice.ClusterService_ConnectClient
	limits  *pumice.Limits
	// The sequence number of the last sent op, and the last sequence number within the credit.
	seq, mayBeSent int64
	queue          []*pumice.Op
	// The revisions of the objects in the core after it has applied all sent ops.
	sent  map[key]int64
	gangs map[string]*gang
	seen  map[string]bool
	// Whether a snapshot has begun and not ended.
	inSnapshot bool
}

// converse serves one stream. It returns the error or GoAway with which the stream ended.
func converse(
	ctx context.Context, client pumice.ClusterServiceClient, hello *pumice.Hello, cluster *Cluster,
	commands <-chan func(*Cluster) []key,
) (*pumice.GoAway, bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	call, err := client.Connect(ctx)
	if err != nil {
		return nil, false, err
	}
	s := &Stream{
		cluster: cluster, epoch: hello.Epoch, call: call,
		sent: map[key]int64{}, gangs: map[string]*gang{}, seen: map[string]bool{},
	}
	welcome, goAway, err := s.greet(hello)
	if err != nil || goAway != nil {
		return goAway, false, err
	}
	goAway, err = s.serve(welcome, commands)
	return goAway, true, err
}

func (s *Stream) greet(hello *pumice.Hello) (*pumice.Welcome, *pumice.GoAway, error) {
	// An error of Send has no details; Recv returns the status.
	_ = s.call.Send(&pumice.ConnectRequest{Message: &pumice.ConnectRequest_Hello{Hello: hello}})
	response, err := s.call.Recv()
	if err != nil {
		return nil, nil, err
	}
	return response.GetWelcome(), response.GetGoAway(), nil
}

func (s *Stream) serve(welcome *pumice.Welcome, commands <-chan func(*Cluster) []key) (*pumice.GoAway, error) {
	log.Printf("core %s (%s) accepted the stream", welcome.CoreId, welcome.CoreVersion)
	s.limits = welcome.Limits
	messages, ended := s.receive()
	digest := time.NewTicker(s.limits.DigestInterval.AsDuration())
	defer digest.Stop()
	// The incarnation is new, so the core requests a snapshot of all kinds.
	s.beginSnapshot(nil)
	for {
		s.flush()
		changes := commands
		if s.inSnapshot {
			// Other changes are not allowed between the markers of a snapshot.
			changes = nil
		}
		select {
		case message := <-messages:
			if goAway := message.GetGoAway(); goAway != nil {
				return goAway, nil
			}
			s.take(message)
		case err := <-ended:
			return nil, err
		case change, open := <-changes:
			if !open {
				return nil, context.Canceled
			}
			s.tell(change(s.cluster)...)
		case <-digest.C:
			s.sendDigest()
		}
	}
}

func (s *Stream) receive() (<-chan *pumice.ConnectResponse, <-chan error) {
	messages, ended := make(chan *pumice.ConnectResponse), make(chan error, 1)
	go func() {
		for {
			message, err := s.call.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case messages <- message:
			case <-s.call.Context().Done():
				return
			}
		}
	}()
	return messages, ended
}

// tell queues the newest versions of objects.
func (s *Stream) tell(keys ...key) {
	for _, k := range keys {
		s.queue = append(s.queue, s.cluster.upsert(k))
	}
}

func (s *Stream) beginSnapshot(kinds []pumice.Kind) {
	begin := &pumice.SnapshotBegin{FirstSeq: s.seq + 1, Kinds: kinds}
	_ = s.call.Send(&pumice.ConnectRequest{Message: &pumice.ConnectRequest_SnapshotBegin{SnapshotBegin: begin}})
	s.inSnapshot = true
	if len(kinds) == 0 {
		s.mayBeSent = s.seq + s.limits.Credit
		s.queue = []*pumice.Op{{Op: &pumice.Op_Configuration{Configuration: &pumice.Configuration{Source: "adapter-go"}}}}
		clear(s.sent)
	}
	s.tell(s.cluster.keys(kinds...)...)
}

// flush sends queued ops within the credit, and then the end marker of a snapshot.
func (s *Stream) flush() {
	for len(s.queue) > 0 && s.seq < s.mayBeSent {
		batch := &pumice.DeltaBatch{FirstSeq: s.seq + 1}
		size := 0
		for len(s.queue) > 0 && s.seq < s.mayBeSent && size < int(s.limits.BatchBytes) {
			op := s.queue[0]
			s.queue = s.queue[1:]
			s.seq++
			size += proto.Size(op)
			batch.Ops = append(batch.Ops, op)
			s.count(op)
		}
		_ = s.call.Send(&pumice.ConnectRequest{Message: &pumice.ConnectRequest_DeltaBatch{DeltaBatch: batch}})
	}
	if s.inSnapshot && len(s.queue) == 0 {
		end := &pumice.SnapshotEnd{Seq: s.seq, Digests: digests(s.sent)}
		_ = s.call.Send(&pumice.ConnectRequest{Message: &pumice.ConnectRequest_SnapshotEnd{SnapshotEnd: end}})
		s.inSnapshot = false
	}
}

// count records the revision of an object in the core after an op.
func (s *Stream) count(op *pumice.Op) {
	if upsert := op.GetUpsert(); upsert != nil {
		s.sent[key{upsert.Kind, upsert.Uid}] = upsert.Revision
	}
	if gone := op.GetTombstone(); gone != nil {
		delete(s.sent, key{gone.Kind, gone.Uid})
	}
}

func (s *Stream) sendDigest() {
	if s.inSnapshot {
		return
	}
	digest := &pumice.Digest{Seq: s.seq, Digests: digests(s.sent)}
	_ = s.call.Send(&pumice.ConnectRequest{Message: &pumice.ConnectRequest_Digest{Digest: digest}})
}

// take handles a message of the core, and ignores unknown messages.
func (s *Stream) take(response *pumice.ConnectResponse) {
	switch message := response.Message.(type) {
	case *pumice.ConnectResponse_Ack:
		s.mayBeSent = message.Ack.AppliedSeq + message.Ack.Credit
		for _, bad := range message.Ack.Rejected {
			log.Printf("the core rejects %s: %s %s", bad.Key, bad.Field, bad.Reason)
		}
	case *pumice.ConnectResponse_DecisionBatch:
		if message.DecisionBatch.Epoch == s.epoch {
			s.decide(message.DecisionBatch)
		}
	case *pumice.ConnectResponse_StatusBatch:
		if message.StatusBatch.Epoch == s.epoch {
			s.writeStatuses(message.StatusBatch)
		}
	case *pumice.ConnectResponse_ConfigurationResult:
		if !message.ConfigurationResult.Accepted {
			log.Printf("the core rejects the configuration: %v", message.ConfigurationResult.Problems)
		}
	case *pumice.ConnectResponse_Resync:
		log.Printf("resync: %s", message.Resync.Reason)
		for _, ref := range message.Resync.Objects {
			s.tell(key{ref.Kind, ref.Uid})
		}
		if len(message.Resync.Kinds) > 0 {
			// Queued ops need their sequence numbers before the snapshot begins.
			s.flush()
			s.beginSnapshot(message.Resync.Kinds)
		}
	}
}

// decide collects gangs until they are complete, and applies them.
func (s *Stream) decide(batch *pumice.DecisionBatch) {
	for _, info := range batch.Gangs {
		if s.gangs[info.Id] == nil {
			s.gangs[info.Id] = &gang{info: info}
		}
	}
	for _, decision := range batch.Decisions {
		if s.seen[decision.Id] {
			continue
		}
		s.seen[decision.Id] = true
		whole := s.gangs[decision.GangId]
		if whole == nil {
			s.apply(decision)
			continue
		}
		whole.decisions = append(whole.decisions, decision)
		if len(whole.decisions) == int(whole.info.Size) {
			delete(s.gangs, decision.GangId)
			s.applyGang(whole)
		}
	}
}

func (s *Stream) applyGang(whole *gang) {
	group := s.cluster.objects[key{pumice.Kind_KIND_POD_GROUP, whole.info.PodGroupUid}].GetPodGroup()
	changed := whole.info.PodGroupUid != "" && (group == nil || group.SpecHash != whole.info.SpecHash)
	for _, decision := range whole.decisions {
		if changed {
			s.report(decision, pumice.OutcomeCode_OUTCOME_CODE_FAILED, "the PodGroup has changed")
		} else {
			s.apply(decision)
		}
	}
}

func (s *Stream) apply(decision *pumice.Decision) {
	switch order := decision.Order.(type) {
	case *pumice.Decision_Bind:
		code, reason := s.cluster.bind(order.Bind)
		s.report(decision, code, reason)
		s.sendChanged(key{pumice.Kind_KIND_POD, order.Bind.Uid})
	case *pumice.Decision_Evict:
		code, reason := s.cluster.evict(order.Evict)
		s.report(decision, code, reason)
		s.tell(key{pumice.Kind_KIND_POD, order.Evict.Uid})
	default:
		s.report(decision, pumice.OutcomeCode_OUTCOME_CODE_FAILED, "unknown order")
	}
}

func (s *Stream) report(decision *pumice.Decision, code pumice.OutcomeCode, reason string) {
	outcome := &pumice.Outcome{DecisionId: decision.Id, Code: code, Reason: reason}
	s.queue = append(s.queue, &pumice.Op{Op: &pumice.Op_Outcome{Outcome: outcome}})
}

// sendChanged sends a changed object of the cluster with a new revision.
func (s *Stream) sendChanged(k key) {
	if object, there := s.cluster.objects[k]; there {
		s.cluster.put(proto.Clone(object).(*pumice.ClusterObject))
		s.tell(k)
	}
}

// writeStatuses writes statuses from the core, and sends the objects again as a confirmation.
func (s *Stream) writeStatuses(batch *pumice.StatusBatch) {
	for _, change := range batch.Changes {
		switch status := change.Change.(type) {
		case *pumice.StatusChange_PodGroup:
			k := key{pumice.Kind_KIND_POD_GROUP, status.PodGroup.Uid}
			if group := s.cluster.objects[k].GetPodGroup(); group != nil {
				group.Status = status.PodGroup.Status
				s.sendChanged(k)
			}
		case *pumice.StatusChange_Queue:
			k := key{pumice.Kind_KIND_QUEUE, status.Queue.Uid}
			if queue := s.cluster.objects[k].GetQueue(); queue != nil {
				queue.Allocated = status.Queue.Allocated
				s.sendChanged(k)
			}
		}
	}
}
