// franz-go (kgo and kadm) against one broker. Usage:
//
//	compat HOST:PORT cases [NAME]...   runs every case, or those that are named; prints `PASS name` or `FAIL name: why`, exits 1 on a FAIL
//	compat HOST:PORT write TOPIC       produces the records that stdin names
//	compat HOST:PORT read TOPIC COUNT  prints COUNT messages from the start of all partitions
//
// The text form of records is that of tests/support/clients/base.py.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const timeout = 30 * time.Second

var bootstrap string

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

func codec(name string) kgo.CompressionCodec {
	switch name {
	case "gzip":
		return kgo.GzipCompression()
	case "snappy":
		return kgo.SnappyCompression()
	case "lz4":
		return kgo.Lz4Compression()
	case "zstd":
		return kgo.ZstdCompression()
	}
	return kgo.NoCompression()
}

// client fails the case when the options do not fit together.
func client(options ...kgo.Opt) *kgo.Client {
	options = append([]kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.HeartbeatInterval(300 * time.Millisecond),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}, append(security(), options...)...)
	made, err := kgo.NewClient(options...)
	must(err)
	return made
}

// security is what COMPAT_SECURITY (JSON) asks for: TLS, and a password or a certificate.
func security() []kgo.Opt {
	text := os.Getenv("COMPAT_SECURITY")
	if text == "" {
		return nil
	}
	var asked struct{ CA, Certificate, Mechanism, User, Password string }
	must(json.Unmarshal([]byte(text), &asked))
	authorities, err := os.ReadFile(asked.CA)
	must(err)
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(authorities)
	if asked.Certificate != "" {
		own, err := tls.LoadX509KeyPair(asked.Certificate, asked.Certificate)
		must(err)
		config.Certificates = []tls.Certificate{own}
	}
	options := []kgo.Opt{kgo.DialTLSConfig(config)}
	switch asked.Mechanism {
	case "PLAIN":
		options = append(options, kgo.SASL(plain.Auth{User: asked.User, Pass: asked.Password}.AsMechanism()))
	case "SCRAM-SHA-256":
		options = append(options, kgo.SASL(scram.Auth{User: asked.User, Pass: asked.Password}.AsSha256Mechanism()))
	case "SCRAM-SHA-512":
		options = append(options, kgo.SASL(scram.Auth{User: asked.User, Pass: asked.Password}.AsSha512Mechanism()))
	}
	return options
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// topicConsumer reads all partitions of a topic from their start, without a group.
func topicConsumer(topic string) *kgo.Client {
	return client(kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
}

// take polls until there are count records or the time is up.
func take(consumer *kgo.Client, count int) []*kgo.Record {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var records []*kgo.Record
	for len(records) < count && ctx.Err() == nil {
		fetches := consumer.PollFetches(ctx)
		records = append(records, fetches.Records()...)
	}
	return records
}

func readAll(topic string, count int) []*kgo.Record {
	consumer := topicConsumer(topic)
	defer consumer.Close()
	return take(consumer, count)
}

func hexOf(value []byte) string {
	if value == nil {
		return "-"
	}
	return hex.EncodeToString(value)
}

func bytesOf(text string) []byte {
	if text == "-" {
		return nil
	}
	value, err := hex.DecodeString(text)
	must(err)
	return value
}

func write(topic string) {
	producers := map[string]*kgo.Client{}
	records := map[string][]*kgo.Record{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		partition, err := strconv.Atoi(f[0])
		must(err)
		record := &kgo.Record{Topic: topic, Partition: int32(partition), Key: bytesOf(f[3]), Value: bytesOf(f[4])}
		if f[2] != "-" {
			ms, err := strconv.ParseInt(f[2], 10, 64)
			must(err)
			record.Timestamp = time.UnixMilli(ms)
		}
		for _, header := range strings.Split(f[5], ",") {
			if name, value, found := strings.Cut(header, "="); found {
				record.Headers = append(record.Headers, kgo.RecordHeader{Key: string(bytesOf(name)), Value: bytesOf(value)})
			}
		}
		if producers[f[1]] == nil {
			producers[f[1]] = client(kgo.ProducerBatchCompression(codec(f[1])))
		}
		records[f[1]] = append(records[f[1]], record)
	}
	must(lines.Err())
	for name, producer := range producers {
		must(producer.ProduceSync(context.Background(), records[name]...).FirstErr())
		producer.Close()
	}
}

func read(topic string, count int) {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for _, r := range readAll(topic, count) {
		headers := make([]string, len(r.Headers))
		for i, h := range r.Headers {
			headers[i] = hexOf([]byte(h.Key)) + "=" + hexOf(h.Value)
		}
		fmt.Fprintf(out, "%d\t%d\t%d\t%s\t%s\t%s\n", r.Partition, r.Offset, r.Timestamp.UnixMilli(), hexOf(r.Key), hexOf(r.Value), strings.Join(headers, ","))
	}
}

func admin() (*kadm.Client, func()) {
	under := client()
	return kadm.NewClient(under), under.Close
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: compat HOST:PORT cases | write TOPIC | read TOPIC COUNT")
		os.Exit(2)
	}
	bootstrap = os.Args[1]
	switch os.Args[2] {
	case "cases":
		if !runCases() {
			os.Exit(1)
		}
	case "write":
		write(os.Args[3])
	case "read":
		count, err := strconv.Atoi(os.Args[4])
		must(err)
		read(os.Args[3], count)
	}
}
