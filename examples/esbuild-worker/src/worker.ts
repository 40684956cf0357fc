// Takes the parameters of commands from stdin, a line of JSON each, and prints what came of them.

import readline from "node:readline";
import { createProvider } from "createos-native";
import { answer } from "./answer.js";

const provider = createProvider();
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { exitCode, stdout } = await provider.execute(JSON.parse(line));
  answer({ exitCode, stdout });
}
await provider.shutdown();
