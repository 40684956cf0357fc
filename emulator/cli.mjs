#!/usr/bin/env node
// The command `createos-emulator`: starts an emulator, says where it is, and ends it on SIGINT, SIGTERM or SIGHUP.
import { parseArgs } from "node:util";
import { startEmulator } from "./index.mjs";

const USAGE = `Usage: createos-emulator [--port N] [--key K]

Runs a CreateOS endpoint on this machine; commands are real processes in isolated sandboxes.

  --port N   the port on 127.0.0.1 (default: a free one)
  --key K    the API key that callers must send (default: a random one, printed)
  --help     prints this
`;

function readArguments() {
  const { values } = parseArgs({ options: { port: { type: "string" }, key: { type: "string" }, help: { type: "boolean" } } });
  if (values.port !== undefined && !(/^\d+$/.test(values.port) && Number(values.port) <= 65535)) {
    throw new Error("--port takes a number from 0 to 65535.");
  }
  if (values.key === "") throw new Error("--key takes a non-empty key.");
  return values;
}

let values;
try {
  values = readArguments();
} catch (error) {
  process.stderr.write(`${error.message}\n\n${USAGE}`);
  process.exit(2);
}
if (values.help) {
  process.stdout.write(USAGE);
  process.exit(0);
}

let emulator;
try {
  emulator = await startEmulator({ port: Number(values.port ?? 0), ...(values.key === undefined ? {} : { key: values.key }) });
} catch (error) {
  process.stderr.write(`createos-emulator could not start: ${error.message}\n`);
  process.exit(1);
}
for (const warning of emulator.warnings) process.stderr.write(`Warning: ${warning}\n`);
let ending = false;
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, async () => {
    // A second signal means now: everything is killed on the way out.
    if (ending) process.exit(1);
    ending = true;
    await emulator.close();
    process.exit(0);
  });
}
process.stdout.write(`createos-emulator listening on ${emulator.url}${values.key === undefined ? ` with API key ${emulator.key}` : ""}\n`);
