// kafka-node 5, a client of Kafka 0.10's days: old.js HOST:PORT write | read | group NAME
// The text form is that of tests/support/clients/old_clients.py.
'use strict'
const kafka = require('kafka-node')

const [bootstrap, mode, groupId] = process.argv.slice(2)
const ATTRIBUTES = { none: 0, gzip: 1, snappy: 2 }
const TIMEOUT_MS = 40000

const bytes = text => (text === '-' ? null : Buffer.from(text, 'hex'))
const text = data => (data === null || data === undefined ? '-' : Buffer.from(data).toString('hex'))
const promised = call => new Promise((resolve, reject) => call((error, result) => (error ? reject(error) : resolve(result))))

async function client () {
  const made = new kafka.KafkaClient({ kafkaHost: bootstrap, requestTimeout: TIMEOUT_MS })
  await new Promise((resolve, reject) => made.once('ready', resolve).once('error', reject))
  return made
}

async function write (rows) {
  const shared = await client()
  const producer = new kafka.Producer(shared, { requireAcks: -1 })
  await promised(done => shared.refreshMetadata([...new Set(rows.map(row => row[0]))], done))
  const sets = new Map()
  for (const [topic, partition, codec, key, value] of rows) {
    const name = [topic, partition, codec].join(' ')
    if (!sets.has(name)) sets.set(name, { topic, partition: Number(partition), attributes: ATTRIBUTES[codec], messages: [] })
    sets.get(name).messages.push(new kafka.KeyedMessage(bytes(key), bytes(value)))
  }
  for (const set of sets.values()) await promised(done => producer.send([set], done))
}

function tell (message) {
  const timestamp = message.timestamp instanceof Date ? message.timestamp.getTime() : -1
  const { topic, partition, offset, key, value } = message
  process.stdout.write([topic, partition, offset, timestamp, text(key), text(value)].join('\t') + '\n')
}

async function read (rows) {
  let left = rows.reduce((sum, row) => sum + Number(row[2]), 0)
  const topics = [...new Set(rows.map(row => row[0]))]
  const options = { encoding: 'buffer', keyEncoding: 'buffer', fetchMaxBytes: 1 << 20 }
  const consumer = groupId === undefined
    ? new kafka.Consumer(await client(), rows.map(([topic, partition]) => ({ topic, partition: Number(partition), offset: 0 })),
      { ...options, autoCommit: false, fromOffset: true })
    : new kafka.ConsumerGroup({ ...options, kafkaHost: bootstrap, groupId, fromOffset: 'earliest', autoCommit: false }, topics)
  await new Promise((resolve, reject) => {
    consumer.on('error', reject)
    consumer.on('message', message => { tell(message); if (--left === 0) resolve() })
    setTimeout(resolve, TIMEOUT_MS)
  })
  if (groupId === undefined) return
  await promised(done => consumer.commit(true, done))
  const offset = new kafka.Offset(await client())
  const payloads = rows.map(([topic, partition]) => ({ topic, partition: Number(partition) }))
  const found = await promised(done => offset.fetchCommitsV1(groupId, payloads, done))
  for (const [topic, partition] of rows) process.stdout.write(`committed\t${topic}\t${partition}\t${found[topic][partition]}\n`)
}

async function main () {
  const input = []
  for await (const chunk of process.stdin) input.push(chunk)
  const rows = Buffer.concat(input).toString().split('\n').filter(Boolean).map(line => line.split('\t'))
  await (mode === 'write' ? write(rows) : read(rows))
}

main().then(() => 0, error => { console.error(error); return 1 }).then(code => process.stdout.write('', () => process.exit(code)))
