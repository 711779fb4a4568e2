// Talk: what the tests let RocketMQ's official Go client do.
//
//	talk ENDPOINT COMMAND TOPIC name=value…
//
// The commands are those of the programs beside it: send, receive, push, transact. This client cannot recall
// messages. Every line of the output is a JSON object, but for the last, "end".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	mq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

var (
	topic   string
	options = map[string]string{}
	config  *mq.Config
	saying  sync.Mutex
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func say(line any) {
	text, err := json.Marshal(line)
	check(err)
	saying.Lock()
	defer saying.Unlock()
	fmt.Println(string(text))
}

func option(name, other string) string {
	if value, found := options[name]; found {
		return value
	}
	return other
}

func number(name string, other int) int {
	value, err := strconv.Atoi(option(name, strconv.Itoa(other)))
	check(err)
	return value
}

func released() {
	_, _ = bufio.NewReader(os.Stdin).ReadByte()
}

func text(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

func view(one *mq.MessageView) map[string]any {
	keys := one.GetKeys()
	if keys == nil {
		keys = []string{}
	}
	return map[string]any{
		"id": one.GetMessageId(), "body": string(one.GetBody()), "tag": text(one.GetTag()), "keys": keys,
		"group": text(one.GetMessageGroup()), "attempt": one.GetDeliveryAttempt(), "properties": one.GetProperties(),
		"offset": one.GetOffset(),
	}
}

func message(at int) *mq.Message {
	made := &mq.Message{Topic: topic, Body: []byte(option("body", "m") + strconv.Itoa(at))}
	if tag, found := options["tag"]; found {
		made.SetTag(tag)
	}
	if keys, found := options["keys"]; found {
		made.SetKeys(strings.Split(keys, ",")...)
	}
	if group, found := options["group"]; found {
		made.SetMessageGroup(group)
	}
	if _, found := options["delay_ms"]; found {
		made.SetDelayTimestamp(time.Now().Add(time.Duration(number("delay_ms", 0)) * time.Millisecond))
	}
	if property, found := options["property"]; found {
		name, value, _ := strings.Cut(property, ":")
		made.AddProperty(name, value)
	}
	return made
}

func filters() map[string]*mq.FilterExpression {
	kind := mq.TAG
	if _, found := options["sql"]; found {
		kind = mq.SQL92
	}
	return map[string]*mq.FilterExpression{topic: mq.NewFilterExpressionWithType(option("filter", "*"), kind)}
}

func producer(more ...mq.ProducerOption) mq.Producer {
	made, err := mq.NewProducer(config, append(more, mq.WithTopics(topic))...)
	check(err)
	check(made.Start())
	return made
}

func send() {
	one := producer()
	for at := 0; at < number("count", 1); at++ {
		receipts, err := one.Send(context.Background(), message(at))
		check(err)
		say(map[string]any{"id": receipts[0].MessageID, "offset": receipts[0].Offset})
	}
	check(one.GracefulStop())
}

func receive() {
	consumer, err := mq.NewSimpleConsumer(config, mq.WithSimpleAwaitDuration(5*time.Second), mq.WithSimpleSubscriptionExpressions(filters()))
	check(err)
	check(consumer.Start())
	count, taken := number("count", 1), 0
	for end := time.Now().Add(30 * time.Second); taken < count && time.Now().Before(end); {
		found, err := consumer.Receive(context.Background(), int32(count), time.Duration(number("invisible_s", 60))*time.Second)
		if err != nil {
			if strings.Contains(err.Error(), "MESSAGE_NOT_FOUND") {
				continue
			}
			check(err)
		}
		for _, one := range found {
			taken++
			say(view(one))
			if _, found := options["change_s"]; found {
				check(consumer.ChangeInvisibleDuration(one, time.Duration(number("change_s", 0))*time.Second))
			} else if _, found := options["keep"]; !found {
				check(consumer.Ack(context.Background(), one))
			}
		}
	}
	check(consumer.GracefulStop())
}

func push() {
	listener := &mq.FuncMessageListener{Consume: func(one *mq.MessageView) mq.ConsumerResult {
		say(view(one))
		if string(one.GetBody()) == option("fail", "") && int(one.GetDeliveryAttempt()) <= number("times", 1) {
			return mq.FAILURE
		}
		return mq.SUCCESS
	}}
	consumer, err := mq.NewPushConsumer(config, mq.WithPushAwaitDuration(5*time.Second),
		mq.WithPushSubscriptionExpressions(filters()), mq.WithPushMessageListener(listener))
	check(err)
	check(consumer.Start())
	released()
}

func transact() {
	end := option("end", "commit")
	one := producer(mq.WithTransactionChecker(&mq.TransactionChecker{Check: func(half *mq.MessageView) mq.TransactionResolution {
		say(view(half))
		if end == "check-commit" {
			return mq.COMMIT
		}
		return mq.ROLLBACK
	}}))
	transaction := one.BeginTransaction()
	_, err := one.SendWithTransaction(context.Background(), message(0), transaction)
	check(err)
	switch end {
	case "commit":
		check(transaction.Commit())
	case "rollback":
		check(transaction.RollBack())
	default:
		released() // the broker asks
	}
	check(one.GracefulStop())
}

func main() {
	topic = os.Args[3]
	for _, one := range os.Args[4:] {
		name, value, _ := strings.Cut(one, "=")
		options[name] = value
	}
	_, mq.EnableSsl = options["tls"]
	config = &mq.Config{
		Endpoint:      os.Args[1],
		ConsumerGroup: option("consumers", "g"),
		Credentials:   &credentials.SessionCredentials{AccessKey: option("key", ""), AccessSecret: option("secret", "")},
	}
	map[string]func(){"send": send, "receive": receive, "push": push, "transact": transact}[os.Args[2]]()
	fmt.Println("end")
}
