#!/usr/bin/env node
// Owns `npm run docs`: the reference of the API, made of the declarations and the pages (target/api), and that of the core,
// made of its comments (target/doc). What is public and not documented, and a link that leads nowhere, fails either.

import { spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { cleanEnvironment, ensureDependencies } from "./npm.mjs";
import { missingTool } from "./toolchain.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));

/** @returns {Array<{name: string, program: string, args: string[], env: NodeJS.ProcessEnv}>} */
export function references() {
  const typedoc = path.join(ROOT, "node_modules", "typedoc", "bin", "typedoc");
  const cargo = ["doc", "--locked", "--no-deps", "--document-private-items"];
  return [
    { name: "typedoc", program: process.execPath, args: [typedoc], env: cleanEnvironment() },
    { name: "cargo doc", program: "cargo", args: cargo, env: { ...cleanEnvironment(), RUSTDOCFLAGS: "-D warnings" } },
  ];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const missing = missingTool(ROOT);
  if (missing) {
    console.error(missing);
    process.exitCode = 1;
  } else {
    ensureDependencies(ROOT);
    for (const { program, args, env } of references()) {
      if (spawnSync(program, args, { cwd: ROOT, env, stdio: "inherit" }).status !== 0) process.exitCode = 1;
    }
  }
}
