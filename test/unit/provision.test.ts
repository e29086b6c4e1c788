import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { make } from '../../scripts/provision/make.js'
import { needsOf } from '../../scripts/provision/needs.js'
import { artifact, artifactPath, cacheFolder, isMade } from '../harness/artifacts.js'
import { removeScratch, scratchFolder } from '../harness/scratch.js'

describe('what a run needs', () => {
  it('is everything without a filter, and beside words that name no test', () => {
    const everything = ['core', 'mysql', 'nginx', 'brokers']
    expect(needsOf([])).toEqual(everything)
    expect(needsOf(['--project', 'brokers'])).toEqual(everything)
    expect(needsOf(['-t', 'keeps commits over kill -9'])).toEqual(everything)
  })

  it('is nothing for unit tests, and no broker for a file that starts none', () => {
    expect(needsOf(['test/unit'])).toEqual([])
    expect(needsOf(['--project=real', 'test/real/harness.test.ts'])).not.toContain('brokers')
    expect(needsOf(['broker-harness'])).toContain('brokers')
  })
})

describe('an artifact', () => {
  let folder: string

  beforeEach(() => {
    folder = scratchFolder('cache')
    vi.stubEnv('FLASH_SALE_KIT_CACHE', folder)
    vi.spyOn(console, 'log').mockImplementation(() => {})
  })
  afterEach(() => {
    vi.unstubAllEnvs()
    vi.restoreAllMocks()
    removeScratch(folder)
  })

  it('is made once, and found afterwards', () => {
    const build = vi.fn((into: string) => writeFileSync(join(into, 'file'), ''))
    make('kafka', 'making', build)
    make('kafka', 'making', build)
    expect(build).toHaveBeenCalledTimes(1)
    expect(readdirSync(artifact('kafka'))).toEqual(['file'])
    expect(readdirSync(cacheFolder())).toHaveLength(1)
  })

  it('is not there when its making failed half-way, and leaves nothing', () => {
    const halfWay = (into: string) => {
      writeFileSync(join(into, 'half'), '')
      throw new Error('the network went away')
    }
    expect(() => make('kafka', 'making', halfWay)).toThrow('the network went away')
    expect(() => artifact('kafka')).toThrow('npm run provision')
    expect(readdirSync(folder)).toEqual([])
  })

  it('clears away what a killed process was making, not what a living one makes', () => {
    const [dead, alive] = ['.unfinished-999999999-a', `.unfinished-${process.pid}-b`]
    for (const name of [dead, alive]) mkdirSync(join(folder, name))
    make('kafka', 'making', () => {})
    expect(existsSync(join(folder, dead))).toBe(false)
    expect(existsSync(join(folder, alive))).toBe(true)
    expect(isMade('kafka')).toBe(true)
  })

  it('that another clone finished first is taken as it is', () => {
    make('kafka', 'making', () => mkdirSync(artifactPath('kafka')))
    expect(readdirSync(artifact('kafka'))).toEqual([])
    rmSync(artifactPath('kafka'), { recursive: true })
  })
})
