import { Agent, request } from 'node:http'
import { LOOPBACK } from '../harness/net.js'

/** How long a buyer waits: a shop answers within 3 s, and the machine may have other work. */
export const ASK_MS = 10_000

/** What a shop answered; `status` is the library's (`queued`, `sold-out`), or `no-answer` with `http` 0. */
export interface Answer {
  readonly http: number
  readonly status: string
  readonly body: Readonly<Record<string, unknown>>
}

export class Browser {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 500 })

  close(): void {
    this.#agent.destroy()
  }

  /** Never rejects. A connection that a process closed while it was idle says nothing about an answer: asked once more. */
  async ask(port: number, method: 'GET' | 'POST', path: string): Promise<Answer> {
    try {
      return await this.#once(port, method, path)
    } catch (error) {
      return { http: 0, status: 'no-answer', body: { error: String(error) } }
    }
  }

  #once(port: number, method: string, path: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const o = { host: LOOPBACK, port, method, path, agent: this.#agent }
      const req = request(o, (res) => {
        let text = ''
        res.setEncoding('utf8')
        res.on('data', (chunk: string) => {
          text += chunk
        })
        res.on('error', reject)
        res.on('end', () => {
          clearTimeout(late)
          try {
            const body = JSON.parse(text) as Answer['body']
            resolve({ http: res.statusCode ?? 0, status: statusOf(body), body })
          } catch (error) {
            reject(error)
          }
        })
      })
      const late = setTimeout(() => req.destroy(new Error(`none within ${ASK_MS} ms`)), ASK_MS)
      req.on('error', (error) => {
        clearTimeout(late)
        const stale = req.reusedSocket && (error as NodeJS.ErrnoException).code === 'ECONNRESET'
        if (stale) this.#once(port, method, path).then(resolve, reject)
        else reject(error)
      })
      req.end()
    })
  }
}

/** `SECKILL_SOLD_OUT` is the library's `sold-out`. */
function statusOf({ code, status }: Answer['body']): string {
  if (typeof code === 'string') return code.slice(8).toLowerCase().replaceAll('_', '-')
  return String(status)
}
