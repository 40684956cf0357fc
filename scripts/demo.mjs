#!/usr/bin/env node
// Owns the command `npm run demo`: installs and builds what is missing, then shows the addon at work, or runs one
// command through it. What is shown is in demo/.
//
//   npm run demo                  a tour; every line of its summary is a check, and a failed one makes the exit status 1
//   npm run demo -- CMD [ARG...]  runs that command, its output live, and ends with its exit status
//
// Both use the emulator, or with CREATEOS_API_URL, CREATEOS_API_KEY and CREATEOS_SHAPE set that endpoint.

import path from "node:path";
import { fileURLToPath } from "node:url";
import { BuildError, build } from "./build.mjs";
import { ensureDependencies } from "./npm.mjs";
import { missingTool } from "./toolchain.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

try {
  const missing = missingTool(ROOT);
  if (missing) throw new BuildError(missing);
  ensureDependencies(ROOT);
  build();
  // Only now there is an addon to load.
  const { main } = await import("./demo/main.mjs");
  process.exitCode = await main(process.argv.slice(2));
} catch (error) {
  console.error(error instanceof BuildError ? error.message : error);
  process.exitCode = 1;
}
