/** The one place that spells keys. Everything between `{` and `}` picks the Cluster slot, so all keys of a tag share one. */
export interface TagKeys {
  readonly sale: string
  readonly released: string
  readonly owed: string
  readonly batch: string
}

export interface SkuKeys extends TagKeys {
  readonly stock: string
  readonly done: string
}

/** `activityId` and `skuId` must have passed `check.keyId`: no braces, no colons, so no two tuples share a key. */
export function tagKeys(activityId: string): TagKeys {
  const tag = `{${activityId}}`
  return {
    sale: `seckill:sale:${tag}`,
    released: `seckill:released:${tag}`,
    owed: `seckill:owed:${tag}`,
    batch: `seckill:batch:${tag}`,
  }
}

export function skuKeys(activityId: string, skuId: string): SkuKeys {
  const tag = `{${activityId}}`
  return {
    ...tagKeys(activityId),
    stock: `seckill:stock:${tag}:${skuId}`,
    done: `seckill:done:${tag}:${skuId}`,
  }
}

export interface RebuildKeys {
  readonly released: string
  stock(skuId: string): string
  done(skuId: string): string
}

/** Where a rebuild writes what is to replace the keys of a tag; each rebuild under its own id, in the same slot. */
export function rebuildKeys(activityId: string, rebuildId: string): RebuildKeys {
  const start = `seckill:rebuild:{${activityId}}:${rebuildId}`
  return {
    released: `${start}:released`,
    stock: (skuId) => `${start}:stock:${skuId}`,
    done: (skuId) => `${start}:done:${skuId}`,
  }
}

export function tokenKey(activityId: string, tokenId: string): string {
  return `seckill:token:{${activityId}}:${tokenId}`
}

/** Which stored token a buyer holds. `*` is outside the alphabet of token ids. */
export function tokenOwnerKey(activityId: string, userId: string): string {
  return `seckill:token:{${activityId}}:*${userId}`
}

export interface QueueKeys {
  readonly stream: string
  /** Messages set aside for a person. */
  readonly dead: string
}

/** `stream` must have passed `check.keyId`. A queue is in one slot, which need not be that of any activity. */
export function queueKeys(stream: string): QueueKeys {
  return { stream: `seckill:queue:{${stream}}`, dead: `seckill:queue:{${stream}}:dead` }
}

/** The buckets of a resource's limits, under a tag of their own: they may lie on another Redis than the stock. */
export function limitKeys(resource: string): {
  readonly clock: string
  readonly buckets: string
  readonly others: string
} {
  const clock = `seckill:limit:{${resource}}`
  return { clock, buckets: `${clock}:1`, others: `${clock}:2` }
}

/** Orders written to one database in the last second, over all processes. */
export function paceKey(name: string): string {
  return `seckill:pace:{${name}}`
}
