// Command lokiclient pushes the lines of standard input as Promtail does: Protocol Buffers in a snappy block.
package main

import (
	"bufio"
	"os"
	"time"

	"github.com/grafana/loki-client-go/loki"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
)

func main() {
	settings, err := loki.NewDefaultConfig(os.Args[1])
	if err != nil {
		panic(err)
	}
	settings.Client.BearerToken = config.Secret(os.Args[2])
	settings.BatchWait = 100 * time.Millisecond
	settings.BackoffConfig.MaxRetries = 100
	client, err := loki.New(settings)
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if err := client.Handle(model.LabelSet{"job": "app"}, time.Now(), lines.Text()); err != nil {
			panic(err)
		}
	}
	client.Stop()
}
