// kfake: franz-go's broker in memory, as a process of its own, to be measured beside the others.
//
//	kfake PORT       serves 127.0.0.1:PORT until it is killed; topics are made by CreateTopics
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kfake PORT")
		os.Exit(2)
	}
	port, err := strconv.Atoi(os.Args[1])
	if err == nil {
		_, err = kfake.NewCluster(kfake.Ports(port), kfake.NumBrokers(1))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kfake:", err)
		os.Exit(1)
	}
	select {}
}
