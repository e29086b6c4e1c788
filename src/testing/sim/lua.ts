import type { Reply } from './redis-store.js'

type Command = (name: string, args: readonly string[]) => Reply

/** Runs scripts as Redis does, given the commands. */
export interface LuaVm {
  run(lua: string, keys: readonly string[], args: readonly string[], command: Command): Reply
}

type L = unknown

/** What is used of the module `fengari`, the Lua interpreter that ioredis-mock has too. */
export interface Fengari {
  readonly to_luastring: (text: string) => Uint8Array
  readonly lua: {
    readonly LUA_REGISTRYINDEX: number
    readonly LUA_TNIL: number
    readonly LUA_TBOOLEAN: number
    readonly LUA_TNUMBER: number
    readonly LUA_TSTRING: number
    readonly LUA_TTABLE: number
    lua_gettop(l: L): number
    lua_settop(l: L, top: number): void
    lua_type(l: L, at: number): number
    lua_tojsstring(l: L, at: number): string
    lua_tonumber(l: L, at: number): number
    lua_toboolean(l: L, at: number): boolean
    lua_isinteger(l: L, at: number): boolean
    lua_pushstring(l: L, text: Uint8Array): void
    lua_pushnumber(l: L, value: number): void
    lua_pushboolean(l: L, value: boolean): void
    lua_pushjsfunction(l: L, f: (l: L) => number): void
    lua_createtable(l: L, list: number, hash: number): void
    lua_rawseti(l: L, at: number, index: number): void
    lua_rawgeti(l: L, at: number, index: number): number
    lua_setfield(l: L, at: number, name: Uint8Array): void
    lua_setglobal(l: L, name: Uint8Array): void
    lua_getglobal(l: L, name: Uint8Array): number
    lua_getfield(l: L, at: number, name: Uint8Array): number
    lua_pcall(l: L, args: number, results: number, handler: number): number
  }
  readonly lauxlib: {
    luaL_newstate(): L
    luaL_loadstring(l: L, text: Uint8Array): number
    luaL_ref(l: L, at: number): number
    luaL_error(l: L, text: Uint8Array): number
  }
  readonly lualib: { luaL_openlibs(l: L): void }
}

/** A script is compiled once: that, and not its run, is what costs 5 to 25 ms in ioredis-mock. */
export function fengariVm({ lua, lauxlib, lualib, to_luastring }: Fengari): LuaVm {
  const l = lauxlib.luaL_newstate()
  lualib.luaL_openlibs(l)
  const compiled = new Map<string, number>()
  const names = new Map<string, Uint8Array>()
  const text = (value: string) => {
    if (value.length > 24) return to_luastring(value)
    if (names.size > 5_000) names.clear()
    const bytes = names.get(value) ?? to_luastring(value)
    names.set(value, bytes)
    return bytes
  }
  let command: Command = () => null

  const push = (value: Reply): void => {
    if (value === null) lua.lua_pushboolean(l, false)
    else if (typeof value === 'string') lua.lua_pushstring(l, text(value))
    else if (typeof value === 'number') lua.lua_pushnumber(l, value)
    else {
      lua.lua_createtable(l, value.length, 0)
      value.forEach((each, i) => {
        push(each)
        lua.lua_rawseti(l, -2, i + 1)
      })
    }
  }
  const call = (state: L): number => {
    const args: string[] = []
    for (let i = 1; i <= lua.lua_gettop(state); i++) args.push(lua.lua_tojsstring(state, i))
    try {
      push(command(args[0] as string, args.slice(1)))
      return 1
    } catch (error) {
      return lauxlib.luaL_error(
        state,
        to_luastring(error instanceof Error ? error.message : `${error}`),
      )
    }
  }
  const read = (at: number): Reply => {
    switch (lua.lua_type(l, at)) {
      case lua.LUA_TSTRING:
        return lua.lua_tojsstring(l, at)
      case lua.LUA_TNUMBER:
        return Math.trunc(lua.lua_tonumber(l, at))
      case lua.LUA_TBOOLEAN:
        return lua.lua_toboolean(l, at) ? 1 : null
      case lua.LUA_TTABLE: {
        const list: Reply[] = []
        const table = lua.lua_gettop(l)
        for (let i = 1; lua.lua_rawgeti(l, table, i) !== lua.LUA_TNIL; i++) {
          list.push(read(-1))
          lua.lua_settop(l, table)
        }
        lua.lua_settop(l, table)
        return list
      }
      default:
        return null
    }
  }
  const compile = (script: string): number => {
    if (lauxlib.luaL_loadstring(l, to_luastring(script)) !== 0)
      throw new Error(`ERR ${lua.lua_tojsstring(l, -1)}`)
    const ref = lauxlib.luaL_ref(l, lua.LUA_REGISTRYINDEX)
    compiled.set(script, ref)
    return ref
  }
  const strings = (name: string, values: readonly string[]) => {
    push(values)
    lua.lua_setglobal(l, text(name))
  }

  lua.lua_createtable(l, 0, 2)
  for (const name of ['call', 'pcall']) {
    lua.lua_pushjsfunction(l, call)
    lua.lua_setfield(l, -2, to_luastring(name))
  }
  lua.lua_setglobal(l, to_luastring('redis'))
  lua.lua_getglobal(l, to_luastring('table'))
  lua.lua_getfield(l, -1, to_luastring('unpack'))
  lua.lua_setglobal(l, to_luastring('unpack'))
  lua.lua_settop(l, 0)

  return {
    run(script, keys, args, commands) {
      command = commands
      const ref = compiled.get(script) ?? compile(script)
      strings('KEYS', keys)
      strings('ARGV', args)
      lua.lua_rawgeti(l, lua.LUA_REGISTRYINDEX, ref)
      const failed = lua.lua_pcall(l, 0, 1, 0) !== 0
      const reply = failed ? `ERR ${lua.lua_tojsstring(l, -1)}` : read(-1)
      lua.lua_settop(l, 0)
      if (failed) throw new Error(String(reply))
      return reply
    },
  }
}
