package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

type testCase struct {
	name string
	run  func()
}

func runCases() bool {
	var cases []testCase
	for _, name := range codecs {
		cases = append(cases, testCase{"roundtrip-" + name, func() { roundtrip(name) }})
	}
	cases = append(cases,
		testCase{"idempotence", idempotence},
		testCase{"group", group},
		testCase{"rebalance-eager", func() { rebalance(kgo.RangeBalancer()) }},
		testCase{"rebalance-cooperative", func() { rebalance(kgo.CooperativeStickyBalancer()) }},
		testCase{"seek-by-time", seekByTime},
		testCase{"large-message", largeMessage},
		testCase{"too-large-message", tooLargeMessage},
		testCase{"many-partitions", manyPartitions},
		testCase{"admin", administration},
	)
	passed := true
	for _, c := range cases {
		if only := os.Args[3:]; len(only) > 0 && !slices.Contains(only, c.name) {
			continue
		}
		began := time.Now()
		if why := attempt(c.run); why != "" {
			passed = false
			fmt.Printf("FAIL %s: %s\n", c.name, strings.ReplaceAll(why, "\n", " "))
		} else {
			fmt.Printf("PASS %s %.1f s\n", c.name, time.Since(began).Seconds())
		}
	}
	return passed
}

// attempt runs a case, which fails by panic, and says why it did.
func attempt(run func()) (why string) {
	defer func() {
		if failure := recover(); failure != nil {
			why = fmt.Sprint(failure)
		}
	}()
	run()
	return ""
}

func check(holds bool, format string, arguments ...any) {
	if !holds {
		panic(fmt.Sprintf(format, arguments...))
	}
}

func equal[T comparable](expected, actual T, what string) {
	check(expected == actual, "%s: expected %v, got %v", what, expected, actual)
}

func fails(expected, actual error) {
	check(errors.Is(actual, expected), "expected %v, got %v", expected, actual)
}

func eventually(condition func() bool, what string) {
	deadline := time.Now().Add(timeout)
	for !condition() {
		check(time.Now().Before(deadline), "not in time: %s", what)
		time.Sleep(20 * time.Millisecond)
	}
}

func name(stem string) string {
	return stem + "-" + strings.ToLower(rand.Text()[:8])
}

func newTopic(stem string, partitions int32) string {
	topic := name(stem)
	adm, done := admin()
	defer done()
	// The cases write records that are years old, which retention would rightly delete.
	noLimit := "-1"
	_, err := adm.CreateTopic(context.Background(), partitions, 1, map[string]*string{"retention.ms": &noLimit}, topic)
	must(err)
	return topic
}

func produce(producer *kgo.Client, records ...*kgo.Record) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	must(producer.ProduceSync(ctx, records...).FirstErr())
}

func produceNumbers(topic string, partitions, from, to int) {
	producer := client()
	defer producer.Close()
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: fmt.Append(nil, i)})
	}
	produce(producer, records...)
}

func same(a, b []byte) bool {
	return (a == nil) == (b == nil) && bytes.Equal(a, b)
}

func roundtrip(codecName string) {
	topic := newTopic("go-roundtrip", 1)
	noise := make([]byte, 300)
	_, _ = rand.Read(noise)
	keys := [][]byte{nil, {}, []byte("key"), noise}
	values := [][]byte{noise, bytes.Repeat([]byte("x"), 2000), {}, nil, []byte("value")}
	producer := client(kgo.ProducerBatchCompression(codec(codecName)), kgo.ProducerLinger(20*time.Millisecond))
	defer producer.Close()
	var records []*kgo.Record
	for i := range 200 {
		record := &kgo.Record{Topic: topic, Key: keys[i%4], Value: values[i%5], Timestamp: time.UnixMilli(1_600_000_000_000 + int64(i))}
		if i%2 == 0 {
			record.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte{byte(i)}}, {Key: "h", Value: []byte{}}, {Key: "größe"}}
		}
		records = append(records, record)
	}
	produce(producer, records...)
	read := readAll(topic, 200)
	equal(200, len(read), "records")
	for i, r := range read {
		equal(int64(i), r.Offset, "offset")
		equal(1_600_000_000_000+int64(i), r.Timestamp.UnixMilli(), "timestamp")
		check(same(keys[i%4], r.Key), "key of %d", i)
		check(same(values[i%5], r.Value), "value of %d", i)
		if i%2 == 1 {
			equal(0, len(r.Headers), "headers")
			continue
		}
		equal(3, len(r.Headers), "headers")
		check(r.Headers[0].Key == "h" && same([]byte{byte(i)}, r.Headers[0].Value), "first header of %d", i)
		check(r.Headers[1].Key == "h" && same([]byte{}, r.Headers[1].Value), "second header of %d", i)
		check(r.Headers[2].Key == "größe" && r.Headers[2].Value == nil, "third header of %d", i)
	}
}

// Many small batches in flight at once come back once each and in order; kgo is idempotent unless told otherwise.
func idempotence() {
	const count = 2000
	topic := newTopic("go-idempotence", 2)
	producer := client(kgo.ProducerBatchMaxBytes(512), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer producer.Close()
	var records []*kgo.Record
	for i := range count {
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % 2), Value: fmt.Append(nil, i)})
	}
	produce(producer, records...)
	next := [2]int{0, 1}
	for _, r := range readAll(topic, count) {
		equal(fmt.Sprint(next[r.Partition]), string(r.Value), "record")
		next[r.Partition] += 2
	}
	equal([2]int{count, count + 1}, next, "records")
}

// A group reads everything, commits, and a later member goes on from there.
func group() {
	topic, group := newTopic("go-group", 3), name("go-group")
	member := func() *kgo.Client {
		return client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	produceNumbers(topic, 3, 0, 300)
	first := member()
	equal(300, len(take(first, 300)), "records of the first member")
	must(first.CommitUncommittedOffsets(context.Background()))
	first.Close()
	produceNumbers(topic, 3, 300, 330)
	second := member()
	defer second.Close()
	values := map[string]bool{}
	for _, r := range take(second, 30) {
		values[string(r.Value)] = true
	}
	equal(30, len(values), "records of the second member")
	for i := 300; i < 330; i++ {
		check(values[fmt.Sprint(i)], "record %d", i)
	}
	adm, done := admin()
	defer done()
	committed, err := adm.FetchOffsets(context.Background(), group)
	must(err)
	for p := range int32(3) {
		offset, found := committed.Lookup(topic, p)
		check(found && offset.At == 100, "committed offset of %d: %v", p, offset)
	}
}

// member is one consumer of a group that polls in the background and knows what it owns.
type member struct {
	mutex   sync.Mutex
	owned   map[int32]bool
	seen    map[string]bool
	client  *kgo.Client
	stop    context.CancelFunc
	stopped chan struct{}
}

func join(group, topic string, balancer kgo.GroupBalancer) *member {
	m := &member{owned: map[int32]bool{}, seen: map[string]bool{}, stopped: make(chan struct{})}
	change := func(owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.mutex.Lock()
			defer m.mutex.Unlock()
			for _, p := range partitions[topic] {
				if owns {
					m.owned[p] = true
				} else {
					delete(m.owned, p)
				}
			}
		}
	}
	m.client = client(kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.Balancers(balancer), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(change(true)), kgo.OnPartitionsRevoked(change(false)), kgo.OnPartitionsLost(change(false)))
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	go func() {
		defer close(m.stopped)
		for ctx.Err() == nil {
			fetches := m.client.PollFetches(ctx)
			m.mutex.Lock()
			for _, r := range fetches.Records() {
				m.seen[string(r.Value)] = true
			}
			m.mutex.Unlock()
		}
	}()
	return m
}

func (m *member) leave() {
	m.stop()
	<-m.stopped
	m.client.Close()
}

func (m *member) owns() map[int32]bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	owned := map[int32]bool{}
	for p := range m.owned {
		owned[p] = true
	}
	return owned
}

func (m *member) count() int {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return len(m.seen)
}

// A second member joins and gets half, leaves and gives it back.
func rebalance(balancer kgo.GroupBalancer) {
	topic, group := newTopic("go-rebalance", 4), name("go-rebalance")
	produceNumbers(topic, 4, 0, 400)
	first := join(group, topic, balancer)
	defer first.leave()
	eventually(func() bool { return len(first.owns()) == 4 && first.count() == 400 }, "the first member has all")
	second := join(group, topic, balancer)
	eventually(func() bool { return len(first.owns()) == 2 && len(second.owns()) == 2 }, "both have half")
	for p := range second.owns() {
		check(!first.owns()[p], "partition %d has two owners", p)
	}
	produceNumbers(topic, 4, 400, 800)
	eventually(func() bool { return first.count() == 600 && second.count() >= 200 }, "each reads its half")
	second.leave()
	eventually(func() bool { return len(first.owns()) == 4 }, "the first member has all again")
}

func seekByTime() {
	topic := newTopic("go-time", 1)
	producer := client()
	defer producer.Close()
	var records []*kgo.Record
	for i := range 100 {
		records = append(records, &kgo.Record{Topic: topic, Value: fmt.Append(nil, i), Timestamp: time.UnixMilli(1_700_000_000_000 + 1000*int64(i))})
	}
	produce(producer, records...)
	adm, done := admin()
	defer done()
	offset := func(listed kadm.ListedOffsets, err error) int64 {
		must(err)
		found, _ := listed.Lookup(topic, 0)
		must(found.Err)
		return found.Offset
	}
	ctx := context.Background()
	equal(int64(42), offset(adm.ListOffsetsAfterMilli(ctx, 1_700_000_041_500, topic)), "offset by time")
	equal(int64(0), offset(adm.ListStartOffsets(ctx, topic)), "start")
	equal(int64(100), offset(adm.ListEndOffsets(ctx, topic)), "end")
	equal(int64(99), offset(adm.ListMaxTimestampOffsets(ctx, topic)), "offset of the largest timestamp")
	consumer := client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AfterMilli(1_700_000_041_500)}}))
	defer consumer.Close()
	equal("42", string(take(consumer, 1)[0].Value), "first record after that time")
}

func largeMessage() {
	topic := newTopic("go-large", 1)
	value := make([]byte, 900_000)
	_, _ = rand.Read(value)
	producer := client()
	defer producer.Close()
	produce(producer, &kgo.Record{Topic: topic, Value: value})
	read := readAll(topic, 1)
	check(len(read) == 1 && bytes.Equal(value, read[0].Value), "the large value")
}

func tooLargeMessage() {
	topic := newTopic("go-too-large", 1)
	producer := client(kgo.ProducerBatchMaxBytes(5_000_000), kgo.BrokerMaxWriteBytes(20_000_000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	defer producer.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	fails(kerr.MessageTooLarge, producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: make([]byte, 1_200_000)}).FirstErr())
	fits := &kgo.Record{Topic: topic, Value: make([]byte, 1000)}
	produce(producer, fits)
	equal(int64(0), fits.Offset, "offset of what fits")
}

func manyPartitions() {
	topic := newTopic("go-many", 200)
	produceNumbers(topic, 200, 0, 1000)
	perPartition := map[int32]int{}
	for _, r := range readAll(topic, 1000) {
		perPartition[r.Partition]++
	}
	equal(200, len(perPartition), "partitions with records")
	for p, n := range perPartition {
		check(n == 5, "%d records in partition %d", n, p)
	}
	adm, done := admin()
	defer done()
	_, err := adm.DeleteTopic(context.Background(), topic)
	must(err)
}

func administration() {
	ctx := context.Background()
	topic := name("go-admin")
	adm, done := admin()
	defer done()
	retention := "123456789"
	_, err := adm.CreateTopic(ctx, 2, -1, map[string]*string{"retention.ms": &retention}, topic)
	must(err)
	_, err = adm.CreateTopic(ctx, 2, -1, nil, topic)
	fails(kerr.TopicAlreadyExists, err)
	wrong := "-7"
	_, err = adm.CreateTopic(ctx, 1, -1, map[string]*string{"retention.ms": &wrong}, name("go-bad"))
	fails(kerr.InvalidConfig, err)
	listed := func() kadm.TopicDetail {
		topics, err := adm.ListTopics(ctx, topic)
		must(err)
		return topics[topic]
	}
	eventually(func() bool { return listed().Err == nil }, "the topic is listed")
	described, err := adm.DescribeTopicConfigs(ctx, topic)
	must(err)
	found := map[string]string{}
	for _, config := range described[0].Configs {
		found[config.Key] = fmt.Sprint(config.MaybeValue(), " ", config.Source)
	}
	equal(retention+" DYNAMIC_TOPIC_CONFIG", found["retention.ms"], "retention.ms")
	equal("delete DEFAULT_CONFIG", found["cleanup.policy"], "cleanup.policy")
	updated, err := adm.UpdatePartitions(ctx, 5, topic)
	must(err)
	must(updated[topic].Err)
	eventually(func() bool { return len(listed().Partitions) == 5 }, "five partitions")
	metadata, err := adm.BrokerMetadata(ctx)
	must(err)
	equal(1, len(metadata.Brokers), "brokers")
	_, err = adm.DeleteTopic(ctx, topic)
	must(err)
	_, err = adm.DeleteTopic(ctx, topic)
	fails(kerr.UnknownTopicOrPartition, err)
	eventually(func() bool { return errors.Is(listed().Err, kerr.UnknownTopicOrPartition) }, "the topic is gone")
}
