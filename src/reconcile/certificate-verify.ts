import * as check from '../core/check.js'
import { SaleAudit } from './certificate-audit.js'
import type { Violation } from './certificate-laws.js'
import { Chain, type ExportLine, parseLine, type SaleCertificate } from './certificate-lines.js'

export interface Verification {
  /** Every line is what was exported, and every law holds. */
  readonly valid: boolean
  /** What the lines amount to, whatever the certificate among them says. */
  readonly certificate: SaleCertificate
  /** The first 1,000. */
  readonly violations: readonly Violation[]
}

const MAX_VIOLATIONS = 1_000

/**
 * Reckons a sale again from its export, without any server. Who forges a line breaks its chain; who forges all lines
 * after it too needs another checksum than the one that was published.
 *
 * @param lines of {@link exportSale}, with or without line feeds
 * @param o `checksum`: of the certificate as it was published
 * @throws FlashSaleError `BAD_INPUT` when `lines` are none, or a line is no string
 */
export async function verifyCertificate(
  lines: Iterable<string> | AsyncIterable<string>,
  o: { readonly checksum?: string } = {},
): Promise<Verification> {
  check.object(o, 'options')
  if (typeof lines !== 'object' || lines === null)
    check.fail('BAD_INPUT', 'lines', 'lines of an export', lines)
  const violations: Violation[] = []
  const audit = new SaleAudit((v) => {
    if (violations.length < MAX_VIOLATIONS) violations.push(v)
  })
  const chain = new Chain()
  let stated: SaleCertificate | null = null
  let reckoned: SaleCertificate | null = null
  // Broken by whoever changed the export, not by the sale: the certificate does not know of them.
  let tampered = 0
  for await (const raw of lines) {
    if (typeof raw !== 'string') check.fail('BAD_INPUT', 'a line', 'a string', raw)
    const text = raw.trimEnd()
    if (text === '') continue
    const before = chain.last
    const intact = chain.follows(text)
    const line = read(text)
    if (line?.kind === 'certificate' && !reckoned) reckoned = audit.certificate(before)
    if (line) audit.add(line)
    else {
      audit.skip('unreadable', 'no line of an export')
      tampered++
    }
    if (!intact) {
      audit.broken('chain', 'not what was exported here')
      tampered += reckoned ? 0 : 1
    }
    if (stated) audit.broken('disordered', 'a line after the certificate')
    if (line?.kind === 'certificate') stated ??= line
  }
  reckoned ??= audit.certificate(chain.last)
  if (!stated) audit.broken('certificate', 'it is missing')
  else if (!same(stated, { ...reckoned, violations: reckoned.violations - tampered }))
    audit.broken('certificate', 'it is not what the lines say')
  if (o.checksum !== undefined && stated?.checksum !== o.checksum)
    audit.broken('certificate', 'it is not the one that was published')
  const certificate = { ...reckoned, violations: audit.violations }
  return { valid: audit.violations === 0, certificate, violations }
}

function read(text: string): ExportLine | null {
  try {
    return parseLine(text)
  } catch {
    return null
  }
}

function same(stated: SaleCertificate, reckoned: SaleCertificate): boolean {
  const { chain: _, ...bare } = stated as SaleCertificate & { chain?: unknown }
  return JSON.stringify(bare) === JSON.stringify(reckoned)
}
