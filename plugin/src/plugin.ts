// The wiring: each of Paperclip's hooks to the method of the provider that does it. All of the work is createos-native's.

import { definePlugin, type PaperclipPlugin, type PluginContext } from "@paperclipai/plugin-sdk";
import { createProvider, type Log, type Warn } from "createos-native";

export function createPlugin(): PaperclipPlugin {
  const provider = createProvider();
  let context: PluginContext;

  // Chunks belong to the call in whose async context they are logged; the provider keeps that context.
  const log: Log = (stream, text) => context.execution.log(stream, text);
  const warn: Warn = (message, facts) => context.logger.warn(message, facts);

  return definePlugin({
    async setup(given) {
      context = given;
    },
    onHealth: () => provider.health(),
    onShutdown: () => provider.shutdown(),

    onEnvironmentValidateConfig: (params) => provider.validateConfig(params),
    onEnvironmentProbe: (params) => provider.probe(params),
    onEnvironmentAcquireLease: (params) => provider.acquireLease(params),
    onEnvironmentResumeLease: (params) => provider.resumeLease(params),
    onEnvironmentReleaseLease: (params) => provider.releaseLease(params),
    onEnvironmentDestroyLease: (params) => provider.destroyLease(params),
    onEnvironmentRealizeWorkspace: (params) => provider.realizeWorkspace(params),
    onEnvironmentExecute: (params) => provider.execute(params, log),
    onEnvironmentSyncIn: (params) => provider.syncIn(params, warn),
    onEnvironmentSyncOut: (params) => provider.syncOut(params, warn),
  });
}
