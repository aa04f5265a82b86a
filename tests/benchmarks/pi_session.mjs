// Opening a conversation with Pi's own session manager and building its context: time and processor time in ms, by round.
// Usage: node pi_session.mjs SESSION.jsonl ROUNDS (with the package in node_modules beside it)
import { dirname } from "node:path";
import { SessionManager } from "@mariozechner/pi-coding-agent";

const [file, rounds] = process.argv.slice(2);
for (let round = 0; round < Number(rounds); round += 1) {
  const start = performance.now();
  const used = process.cpuUsage();
  const { messages } = SessionManager.open(file, dirname(file)).buildSessionContext();
  const { user, system } = process.cpuUsage(used);
  const ms = performance.now() - start;
  console.log(JSON.stringify({ ms, cpu: (user + system) / 1000, messages: messages.length }));
}
