// Talk: what the tests let the official Go client do. One subcommand a call; messages as JSON lines.
//
//	talk -url pulsar://… produce TOPIC COUNT   payloads "go-0", "go-1", …; keys "k0" … "k3" with -keys
//	talk -url pulsar://… consume TOPIC COUNT   acks what it prints; -type exclusive|shared|failover|key_shared
//	talk -url pulsar://… read TOPIC            a reader, from the earliest message to the end
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

const orderSchema = `{"type":"record","name":"Order","fields":[{"name":"name","type":["null","string"],"default":null},{"name":"count","type":["null","int"],"default":null}]}`

type order struct {
	Name  *string `json:"name" avro:"name"`
	Count *int32  `json:"count" avro:"count"`
}

type seen struct {
	Payload string `json:"payload"`
	Key     string `json:"key"`
	ID      string `json:"id"`
	Order   *order `json:"order,omitempty"`
}

var (
	url    = flag.String("url", "", "service URL")
	sub    = flag.String("sub", "s", "subscription")
	kind   = flag.String("type", "exclusive", "subscription type")
	schema = flag.String("schema", "", "json or avro: messages are orders")
	keys   = flag.Bool("keys", false, "give messages keys")
	batch  = flag.Bool("batch", false, "send batches")
)

var kinds = map[string]pulsar.SubscriptionType{
	"exclusive": pulsar.Exclusive, "shared": pulsar.Shared,
	"failover": pulsar.Failover, "key_shared": pulsar.KeyShared,
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func chosenSchema() pulsar.Schema {
	switch *schema {
	case "json":
		return pulsar.NewJSONSchema(orderSchema, nil)
	case "avro":
		return pulsar.NewAvroSchema(orderSchema, nil)
	}
	return nil
}

func show(message pulsar.Message) {
	line := seen{Payload: string(message.Payload()), Key: message.Key(), ID: message.ID().String()}
	if *schema != "" {
		line.Payload, line.Order = "", &order{}
		check(message.GetSchemaValue(line.Order))
	}
	text, err := json.Marshal(line)
	check(err)
	fmt.Println(string(text))
}

func produce(client pulsar.Client, topic string, count int) {
	producer, err := client.CreateProducer(pulsar.ProducerOptions{
		Topic: topic, Schema: chosenSchema(), DisableBatching: !*batch, BatchingMaxPublishDelay: time.Second,
	})
	check(err)
	for number := 0; number < count; number++ {
		message := &pulsar.ProducerMessage{}
		if *schema != "" {
			name, amount := "go-"+strconv.Itoa(number), int32(number)
			message.Value = &order{Name: &name, Count: &amount}
		} else {
			message.Payload = []byte("go-" + strconv.Itoa(number))
		}
		if *keys {
			message.Key = "k" + strconv.Itoa(number%4)
		}
		producer.SendAsync(context.Background(), message, func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) { check(err) })
	}
	check(producer.FlushWithCtx(context.Background()))
	producer.Close()
}

func consume(client pulsar.Client, topic string, count int) {
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{
		Topic: topic, SubscriptionName: *sub, Type: kinds[*kind], Schema: chosenSchema(), AckWithResponse: true,
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest, EnableBatchIndexAcknowledgment: true,
	})
	check(err)
	until, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for number := 0; number < count; number++ {
		message, err := consumer.Receive(until)
		check(err)
		check(consumer.Ack(message))
		show(message)
	}
	consumer.Close()
}

func read(client pulsar.Client, topic string) {
	reader, err := client.CreateReader(pulsar.ReaderOptions{
		Topic: topic, StartMessageID: pulsar.EarliestMessageID(), Schema: chosenSchema(),
	})
	check(err)
	until, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for reader.HasNext() {
		message, err := reader.Next(until)
		check(err)
		show(message)
	}
	reader.Close()
}

func main() {
	flag.Parse()
	quiet := logrus.New()
	quiet.SetLevel(logrus.ErrorLevel)
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: *url, Logger: log.NewLoggerWithLogrus(quiet)})
	check(err)
	defer client.Close()
	topic, count := flag.Arg(1), 0
	if flag.NArg() > 2 {
		count, err = strconv.Atoi(flag.Arg(2))
		check(err)
	}
	switch flag.Arg(0) {
	case "produce":
		produce(client, topic, count)
	case "consume":
		consume(client, topic, count)
	case "read":
		read(client, topic)
	}
}
