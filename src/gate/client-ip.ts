import { isIPv4, isIPv6 } from 'node:net'
import * as check from '../core/check.js'

/**
 * What counts as one caller's address: an IPv4 address; of an IPv6 address its /64, of which a household or a phone has
 * 2^64 to choose from. An IPv4 address mapped into IPv6 (`::ffff:203.0.113.9`, how a dual-stack socket shows it) is the
 * IPv4 address.
 *
 * @throws FlashSaleError `BAD_INPUT` for what is no address: one with a port, a list of proxies, `unknown`, an empty string
 */
export function addressOf(ip: unknown): string {
  if (typeof ip === 'string') {
    if (isIPv4(ip)) return ip
    // 45 characters are the longest address; a zone (`fe80::1%eth0`) names an interface of this machine.
    if (ip.length <= 100 && isIPv6(ip)) return ofGroups(groupsOf(ip.split('%')[0] as string))
  }
  return check.fail('BAD_INPUT', 'ip', 'an IPv4 or IPv6 address without a port', ip)
}

/** The eight groups of an IPv6 address that is known to be one. */
function groupsOf(ip: string): readonly number[] {
  const [head = '', tail] = ip.split('::')
  const left = head === '' ? [] : head.split(':').flatMap(groups)
  if (tail === undefined) return left
  const right = tail === '' ? [] : tail.split(':').flatMap(groups)
  return [...left, ...new Array<number>(8 - left.length - right.length).fill(0), ...right]
}

/** One group of hexadecimal digits, or the two of an IPv4 address at the end. */
function groups(text: string): number[] {
  if (!text.includes('.')) return [Number.parseInt(text, 16)]
  const [a, b, c, d] = text.split('.').map(Number) as [number, number, number, number]
  return [a * 256 + b, c * 256 + d]
}

function ofGroups(groups: readonly number[]): string {
  const [, , , , , mark, high = 0, low = 0] = groups
  if (mark === 0xffff && groups.slice(0, 5).every((group) => group === 0))
    return `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`
  const prefix = groups.slice(0, 4).map((group) => group.toString(16))
  return `${prefix.join(':')}::`
}
