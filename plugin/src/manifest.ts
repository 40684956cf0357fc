// What Paperclip shows of the plugin and asks of an operator. The addon checks the settings again, and is stricter: see
// `parseConfig` of createos-native.

import type { PaperclipPluginManifestV1 } from "@paperclipai/plugin-sdk";

const ENDPOINT = "https://api.sb.createos.sh";

/** The catalogue of shapes as published on 2026-09-08. */
const SHAPES = [
  "s-1vcpu-256mb",
  "s-0.25vcpu-512mb",
  "s-0.5vcpu-1gb",
  "s-1vcpu-1gb",
  "s-1vcpu-2gb",
  "s-2vcpu-2gb",
  "s-2vcpu-4gb",
  "s-4vcpu-4gb",
  "s-4vcpu-8gb",
  "s-8vcpu-8gb",
  "s-8vcpu-16gb",
];

const manifest: PaperclipPluginManifestV1 = {
  id: "paperclip.createos-sandbox-provider",
  apiVersion: 1,
  version: "0.1.0",
  displayName: "CreateOS",
  description: "Gives agents sandboxes of CreateOS to work in, by a native engine.",
  author: "createos-native",
  categories: ["automation"],
  capabilities: ["environment.drivers.register"],
  entrypoints: { worker: "./dist/worker.js" },
  environmentDrivers: [
    {
      driverKey: "createos",
      kind: "sandbox_provider",
      displayName: "CreateOS sandbox",
      description: "A sandbox for each lease, with live output. It can be paused between runs and keep its files.",
      supportsReusableLeases: true,
      sandboxCapabilities: { reusableLeases: true, incrementalSessionOutput: true },
      configSchema: {
        type: "object",
        required: ["apiUrl", "shape"],
        properties: {
          apiUrl: {
            type: "string",
            title: "API URL",
            description: "Where the CreateOS API is. HTTPS, except on this machine.",
            default: ENDPOINT,
          },
          apiKey: {
            type: "string",
            format: "secret-ref",
            title: "API key",
            description: "Kept as a secret of the company. Without one the worker's CREATEOS_API_KEY is used.",
          },
          shape: {
            type: "string",
            title: "Shape",
            description: "Processors and memory of each sandbox.",
            enum: SHAPES,
          },
          rootfs: {
            type: "string",
            title: "Image",
            description: "A root file system or a template. It needs Bash, tar and what the agents use. Default: the endpoint's.",
          },
          region: {
            type: "string",
            title: "Region",
            description: "One that the endpoint serves. Default: the endpoint's.",
          },
          timeoutMs: {
            type: "integer",
            title: "Timeout (ms)",
            description: "Bounds a command that has no timeout of its own, and each other operation. Sandboxes live longer.",
            minimum: 1,
            maximum: 86_400_000,
            default: 300_000,
          },
          reuseLease: {
            type: "boolean",
            title: "Reuse sandboxes",
            description: "Pause a sandbox after a run and wake it for the next one, instead of deleting it.",
            default: false,
          },
        },
      },
    },
  ],
};

export default manifest;
