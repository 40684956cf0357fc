// Runs the commands that it is told, one provider for the thread.

import { parentPort, workerData } from "node:worker_threads";
import { createProvider } from "createos-native";

const { scope, lease } = workerData;
const provider = createProvider();

parentPort.on("message", async ({ id, source }) => {
  const log = (stream, text) => parentPort.postMessage({ id, text });
  const { stdout } = await provider.execute({ ...scope, lease, command: "bash", args: ["-c", source] }, log);
  parentPort.postMessage({ id, stdout });
});
