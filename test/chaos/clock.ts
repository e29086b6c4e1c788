/** Imported first by a process that is to live in another time: SHOP's `clockMs` moves its wall clock, not the monotonic one. */
const { clockMs = 0 } = JSON.parse(process.env.SHOP ?? '{}') as { clockMs?: number }

if (clockMs !== 0) {
  const RealDate = Date
  const now = () => RealDate.now() + clockMs
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, args) =>
      Reflect.construct(target, args.length === 0 ? [now()] : args) as Date,
    apply: () => new RealDate(now()).toString(),
    get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
  })
}
