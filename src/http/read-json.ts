import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { type HttpAnswer, requestRefusals } from './to-http.js'

/** What came with a request; `undefined` when it had no body. */
export type BodyRead =
  | { readonly status: 'read'; readonly body: unknown }
  | { readonly status: 'refused'; readonly answer: HttpAnswer }

const NO_BODY: BodyRead = { status: 'read', body: undefined }
const TOO_LARGE: BodyRead = { status: 'refused', answer: requestRefusals.tooLarge }
const NOT_JSON: BodyRead = { status: 'refused', answer: requestRefusals.notJson }
const MALFORMED: BodyRead = { status: 'refused', answer: requestRefusals.badRequest }

/** JSON by its media type, in the one encoding JSON has between systems (RFC 8259, §8.1). */
const JSON_TYPE = /^application\/json\s*(?:;\s*charset="?utf-8"?\s*)?$/i

/**
 * The JSON body of a request, at most `maxBytes` long. What a parser before us has already put into `parsed` is taken
 * instead: an object, or the text or bytes of it.
 */
export function readJson(
  req: IncomingMessage,
  maxBytes: number,
  parsed?: unknown,
): BodyRead | Promise<BodyRead> {
  // An empty object is also what some parsers leave behind where they read nothing.
  const unread = parsed === undefined || (isEmpty(parsed) && !req.readableEnded)
  if (!unread) return fromParser(parsed, maxBytes)
  const { 'content-length': length, 'transfer-encoding': coding } = req.headers
  if (coding === undefined && (length === undefined || length === '0')) return NO_BODY
  if (req.readableEnded) return NO_BODY // somebody read it and kept nothing
  if (Number(length) > maxBytes) return TOO_LARGE
  const { 'content-type': type, 'content-encoding': packed } = req.headers
  if (packed !== undefined && packed !== 'identity') return NOT_JSON
  if (type !== 'application/json' && !JSON_TYPE.test(type ?? '')) return NOT_JSON
  return readAll(req, maxBytes)
}

function readAll(req: IncomingMessage, maxBytes: number): Promise<BodyRead> {
  return new Promise((resolve) => {
    let bytes = 0
    let first: Buffer | null = null
    let chunks: Buffer[] | null = null
    req.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > maxBytes) {
        // The rest flows by unread until the connection closes.
        first = chunks = null
        resolve(TOO_LARGE)
      } else if (first === null) first = chunk
      else if (chunks === null) chunks = [first, chunk]
      else chunks.push(chunk)
    })
    req.on('end', () => {
      if (bytes > maxBytes) return
      resolve(first === null ? NO_BODY : parse(chunks === null ? first : Buffer.concat(chunks)))
    })
    // A client that goes away in the middle: nobody reads the answer, but somebody waits for it.
    req.on('close', () => resolve(MALFORMED))
  })
}

function parse(bytes: Buffer): BodyRead {
  if (!isUtf8(bytes)) return MALFORMED
  try {
    return { status: 'read', body: JSON.parse(bytes.toString()) }
  } catch {
    return MALFORMED
  }
}

function fromParser(parsed: unknown, maxBytes: number): BodyRead {
  const bytes = typeof parsed === 'string' ? Buffer.from(parsed) : parsed
  if (!Buffer.isBuffer(bytes)) return { status: 'read', body: parsed }
  if (bytes.length === 0) return NO_BODY
  return bytes.length > maxBytes ? TOO_LARGE : parse(bytes)
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}
