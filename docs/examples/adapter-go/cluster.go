package main

import (
	"fmt"
	"sort"

	pumice "example.com/adapter/pumicev1"
)

// key identifies an object; uids are never reused.
type key struct {
	kind pumice.Kind
	uid  string
}

// Cluster is a cluster in memory: nodes, a queue and jobs. One goroutine uses it.
type Cluster struct {
	objects   map[key]*pumice.ClusterObject
	revisions map[key]int64
	revision  int64
}

// amounts has the units of the protocol: thousandths of a CPU, bytes, and a number of pods.
func amounts(milliCPU, memoryBytes, pods int64) map[string]int64 {
	return map[string]int64{"cpu": milliCPU, "memory": memoryBytes, "pods": pods}
}

const gib = 1 << 30

func newCluster(nodes int) *Cluster {
	c := &Cluster{objects: map[key]*pumice.ClusterObject{}, revisions: map[key]int64{}}
	c.put(&pumice.ClusterObject{Object: &pumice.ClusterObject_Queue{Queue: &pumice.Queue{
		Uid: "queue-default", Name: "default", State: pumice.QueueState_QUEUE_STATE_OPEN,
	}}})
	for number := range nodes {
		name := fmt.Sprintf("n%d", number+1)
		whole := amounts(4000, 16*gib, 110)
		c.put(&pumice.ClusterObject{Object: &pumice.ClusterObject_Node{Node: &pumice.Node{
			Uid: "node-" + name, Name: name, Allocatable: whole, Capacity: whole,
		}}})
	}
	return c
}

// addJob creates a PodGroup and its pods, and returns their keys.
func (c *Cluster) addJob(name string, size int) []key {
	keys := []key{c.put(&pumice.ClusterObject{Object: &pumice.ClusterObject_PodGroup{PodGroup: &pumice.PodGroup{
		Uid: "group-" + name, Namespace: "team", Name: name, MinMember: int32(size), Queue: "default",
		SpecHash: fmt.Sprintf("queue=default,minMember=%d", size),
	}}})}
	for number := range size {
		keys = append(keys, c.put(&pumice.ClusterObject{Object: &pumice.ClusterObject_Pod{Pod: &pumice.Pod{
			Uid:       fmt.Sprintf("pod-%s-%d", name, number),
			Namespace: "team",
			Name:      fmt.Sprintf("%s-%d", name, number),
			GroupName: name,
			Phase:     pumice.PodPhase_POD_PHASE_PENDING,
			Spec:      &pumice.PodSpec{SchedulerName: "volcano", Requests: amounts(1000, gib, 1)},
		}}}))
	}
	return keys
}

// put stores a version of an object under a new revision.
func (c *Cluster) put(object *pumice.ClusterObject) key {
	var k key
	switch held := object.Object.(type) {
	case *pumice.ClusterObject_Queue:
		k = key{pumice.Kind_KIND_QUEUE, held.Queue.Uid}
	case *pumice.ClusterObject_Node:
		k = key{pumice.Kind_KIND_NODE, held.Node.Uid}
	case *pumice.ClusterObject_PodGroup:
		k = key{pumice.Kind_KIND_POD_GROUP, held.PodGroup.Uid}
	case *pumice.ClusterObject_Pod:
		k = key{pumice.Kind_KIND_POD, held.Pod.Uid}
	}
	c.revision++
	c.objects[k], c.revisions[k] = object, c.revision
	return k
}

// keys lists the objects of some kinds, or all of them.
func (c *Cluster) keys(kinds ...pumice.Kind) []key {
	wanted := map[pumice.Kind]bool{}
	for _, kind := range kinds {
		wanted[kind] = true
	}
	var found []key
	for k := range c.objects {
		if len(kinds) == 0 || wanted[k.kind] {
			found = append(found, k)
		}
	}
	sort.Slice(found, func(i, j int) bool {
		return found[i].kind < found[j].kind || found[i].kind == found[j].kind && found[i].uid < found[j].uid
	})
	return found
}

// upsert returns an op with the newest version of an object, or a tombstone if the object does not exist.
func (c *Cluster) upsert(k key) *pumice.Op {
	object, there := c.objects[k]
	if !there {
		return &pumice.Op{Op: &pumice.Op_Tombstone{Tombstone: &pumice.ObjectRef{Kind: k.kind, Uid: k.uid}}}
	}
	return &pumice.Op{Op: &pumice.Op_Upsert{Upsert: &pumice.Upsert{
		Kind: k.kind, Uid: k.uid, Revision: c.revisions[k], Object: object,
	}}}
}

// bind binds a pod to a node, as a call to a real cluster would.
func (c *Cluster) bind(bind *pumice.Bind) (pumice.OutcomeCode, string) {
	pod := c.objects[key{pumice.Kind_KIND_POD, bind.Uid}].GetPod()
	if pod == nil {
		return pumice.OutcomeCode_OUTCOME_CODE_GONE, "no such pod"
	}
	if pod.NodeName == bind.Node {
		return pumice.OutcomeCode_OUTCOME_CODE_APPLIED, ""
	}
	if pod.NodeName != "" {
		return pumice.OutcomeCode_OUTCOME_CODE_CONFLICT, "the pod is on " + pod.NodeName
	}
	pod.NodeName, pod.Phase = bind.Node, pumice.PodPhase_POD_PHASE_RUNNING
	fmt.Printf("bound %s/%s to %s\n", bind.Namespace, bind.Name, bind.Node)
	return pumice.OutcomeCode_OUTCOME_CODE_APPLIED, ""
}

// evict deletes a pod.
func (c *Cluster) evict(evict *pumice.Evict) (pumice.OutcomeCode, string) {
	k := key{pumice.Kind_KIND_POD, evict.Uid}
	if _, there := c.objects[k]; !there {
		return pumice.OutcomeCode_OUTCOME_CODE_GONE, "no such pod"
	}
	delete(c.objects, k)
	delete(c.revisions, k)
	fmt.Printf("evicted %s/%s\n", evict.Namespace, evict.Name)
	return pumice.OutcomeCode_OUTCOME_CODE_APPLIED, ""
}
