import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { PATH, serve } from '../suites/serve-http.js'

describe('bodies', () => {
  const refused = [
    ['half an object', '{'],
    ['null', 'null'],
    ['a list', '[]'],
    ['a string', '"x"'],
    ['a number', '7'],
    ['no UTF-8', Buffer.from([0x7b, 0xff, 0x7d])],
    ['noise', randomBytes(100)],
    ['C02 a quantity in a string', '{"quantity":"1"}'],
    ['C02 nothing', '{"quantity":0}'],
    ['C02 less than nothing', '{"quantity":-5}'],
    ['C02 a half', '{"quantity":1.5}'],
    ['C02 infinity', '{"quantity":1e400}'],
    ['C02 an unsafe number', '{"quantity":9007199254740993}'],
    ['C02 too many', '{"quantity":1001}'],
    ['C02 null', '{"quantity":null}'],
    ['C02 a list', '{"quantity":[2]}'],
    ['a payload over 1,024 bytes', `{"payload":"${'x'.repeat(1_023)}"}`],
    ['a payload of more bytes than characters', `{"payload":"${'秒'.repeat(400)}"}`],
  ] as const

  it.each(refused)('%#: %s is 400', async (_, body) => {
    const { send, asked, errors } = await serve()
    const answer = await send({ body })
    expect([answer.status, answer.body]).toEqual([400, { code: 'SECKILL_BAD_REQUEST' }])
    expect(asked).toEqual([])
    expect(errors).toEqual([])
  })

  it('may be left out, sent empty, in pieces, or with a charset', async () => {
    const { send, asked, port } = await serve()
    expect((await send()).status).toBe(202)
    expect((await send({ body: '' })).status).toBe(202)
    expect((await send({ body: '{}' })).status).toBe(202)
    for (const type of ['application/json;charset=utf-8', 'Application/JSON; charset="UTF-8"'])
      expect((await send({ body: '{}', headers: { 'content-type': type } })).status).toBe(202)
    const pieces = await new Promise<string>((resolve) => {
      const socket = connect(port, '127.0.0.1')
      let answer = ''
      socket.on('data', (data) => {
        answer += data
        socket.destroy()
      })
      socket.on('close', () => resolve(answer))
      const head = `POST ${PATH} HTTP/1.1\r\nHost: x\r\nX-Test-User: ann\r\nContent-Type: application/json\r\n`
      socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n4\r\n{"qu\r\n`)
      setTimeout(() => socket.write('b\r\nantity": 3}\r\n0\r\n\r\n'), 20)
    })
    expect(pieces).toMatch(/^HTTP\/1\.1 202 /)
    expect(asked.at(-1)?.quantity).toBe(3)
  })

  it('of more than 4 kB are 413, announced or not, and end the connection', async () => {
    const { send, asked } = await serve()
    const body = `{"payload":"${'x'.repeat(5_000)}"}`
    for (const headers of [{}, { 'transfer-encoding': 'chunked' }]) {
      const answer = await send({ body, headers })
      expect([answer.status, answer.body]).toEqual([413, { code: 'SECKILL_TOO_LARGE' }])
      expect(answer.headers.connection).toBe('close')
    }
    expect((await send({ path: '/api/seckill/a1/token', body })).status).toBe(413)
    expect(asked).toEqual([])
    const roomy = await serve({ maxBodyBytes: 8_000 })
    expect((await roomy.send({ body: `{"other":"${'x'.repeat(5_000)}"}` })).status).toBe(202)
  })

  it.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/json; charset=gbk',
    'application/jsonp',
  ])('of type %s are 415', async (type) => {
    const { send, asked } = await serve()
    const answer = await send({ body: '{}', headers: { 'content-type': type } })
    expect([answer.status, answer.body]).toEqual([415, { code: 'SECKILL_NOT_JSON' }])
    expect(asked).toEqual([])
  })

  it('that are packed are 415', async () => {
    const { send } = await serve()
    expect((await send({ body: '{}', headers: { 'content-encoding': 'gzip' } })).status).toBe(415)
  })

  it('that never end leave nothing behind when the client goes away', async () => {
    const { port, send, asked, errors } = await serve()
    const socket = connect(port, '127.0.0.1')
    socket.write(
      `POST ${PATH} HTTP/1.1\r\nHost: x\r\nX-Test-User: ann\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{`,
    )
    await new Promise((resolve) => setTimeout(resolve, 30))
    socket.destroy()
    expect((await send()).status).toBe(202)
    expect(asked.length).toBe(1)
    expect(errors).toEqual([])
  })
})
