export { type NodeHandlerOptions, nodeHandler } from './node-handler.js'
export {
  type ResultQuestion,
  type Sale,
  SeckillRoutes,
  type SeckillRoutesOptions,
  type SubmitQuestion,
  type TokenQuestion,
} from './seckill-routes.js'
export type { SeckillHttpOptions } from './serve.js'
export {
  errorToHttp,
  type HttpAnswer,
  type HttpBody,
  type TokenOutcome,
  toHttp,
} from './to-http.js'
