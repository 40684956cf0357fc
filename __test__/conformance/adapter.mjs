// Lets a vector drive the package, with the scanner of secrets between them, or the module that CREATEOS_MODULE names. Pacing is
// off, for time's sake only.

import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const ENTRY = fileURLToPath(new URL("../support/package.mjs", import.meta.url));

export async function load() {
  const native = await import(pathToFileURL(path.resolve(process.env.CREATEOS_MODULE ?? ENTRY)).href);
  const options = { pacing: false };
  return {
    parseConfig: (raw) => native.parseConfig(raw),
    makeClient: (config) => new native.CreateosClient(native.parseConfig(config), options),
    execute: native.execute,
    createProvider() {
      const provider = native.createProvider(options);
      return {
        execute: (params, log) => provider.execute(params, log),
        release: (params, destroy) => provider.release(params, destroy),
        acquire: (params) => provider.acquireLease(params),
        resume: (params) => provider.resumeLease(params),
        probe: (params) => provider.probe(params),
        validate: (params) => provider.validateConfig(params),
        realize: (params) => provider.realizeWorkspace(params),
        syncIn: (params) => provider.syncIn(params),
        syncOut: (params) => provider.syncOut(params),
        shutdown: () => provider.shutdown(),
      };
    },
  };
}
