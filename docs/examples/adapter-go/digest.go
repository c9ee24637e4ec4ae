package main

import (
	"encoding/binary"
	"fmt"
	"sort"

	"golang.org/x/crypto/blake2b"

	pumice "example.com/adapter/pumicev1"
)

// hash64 is BLAKE2b of 8 bytes over the uid, a zero byte and the revision in decimal.
func hash64(uid string, revision int64) uint64 {
	hash, err := blake2b.New(8, nil)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(hash, "%s\x00%d", uid, revision)
	return binary.BigEndian.Uint64(hash.Sum(nil))
}

// digests computes the digests of the sent objects by kind. Unsigned integers in Go overflow modulo 2^64.
func digests(sent map[key]int64) []*pumice.KindDigest {
	byKind := map[pumice.Kind]*pumice.KindDigest{}
	for k, revision := range sent {
		digest := byKind[k.kind]
		if digest == nil {
			digest = &pumice.KindDigest{Kind: k.kind}
			byKind[k.kind] = digest
		}
		digest.Count++
		digest.Sum += hash64(k.uid, revision)
	}
	found := make([]*pumice.KindDigest, 0, len(byKind))
	for _, digest := range byKind {
		found = append(found, digest)
	}
	sort.Slice(found, func(i, j int) bool { return found[i].Kind < found[j].Kind })
	return found
}
