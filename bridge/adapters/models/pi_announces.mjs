// Runs inside pi, loaded by name. Tells whoever started it, as states of its RPC, which tools the model is offered: as
// the session begins, and of each request as it goes out, whatever the vendor calls the field. No tool is ever run.

const offered = (request) =>
  [request.tools, request.functions, request.toolConfig?.tools, request.config?.tools]
    .flat()
    .filter(Boolean)
    .map((tool) => tool.name ?? tool.function?.name ?? "a tool");

export default function (pi) {
  const tell = (context, key, value) => context.ui.setStatus(key, JSON.stringify({ value }));

  pi.on("session_start", (_event, context) => tell(context, "bridge-tools", pi.getActiveTools()));
  pi.on("before_provider_request", (event, context) =>
    tell(context, "bridge-request", [...pi.getActiveTools(), ...offered(event.payload ?? {})]),
  );
  pi.on("tool_call", () => ({ block: true, reason: "no tool may be used here" }));
}
