// A model behind an OpenAI-compatible endpoint that says what the test wrote for it. It knows no tools and no eVi.
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";

/** What the model says next. */
export type Reply =
  | { says: string }
  | { calls: string; with: unknown }
  /** An error with this status. */
  | { refuses: number }
  /** A beginning, and nothing more until the reader hangs up. */
  | { begins: string };

/** The endpoint. */
export class Model {
  /** What it was asked, oldest first. */
  readonly requests: {
    messages: { role: string; content: unknown }[];
    tools?: { function: { name: string } }[];
  }[] = [];
  /** How often a reader hung up in the middle of an answer. */
  hungUp = 0;
  #server: Server;
  #replies: Reply[];

  private constructor(replies: Reply[]) {
    this.#replies = replies;
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  static async that(...replies: Reply[]): Promise<Model> {
    const model = new Model(replies);
    model.#server.listen(0, "127.0.0.1");
    await once(model.#server, "listening");
    return model;
  }

  /** Such as `http://127.0.0.1:4711/v1`. */
  get address(): string {
    const address = this.#server.address();
    return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/v1`;
  }

  /** The configuration that uses it. */
  get config(): string {
    return `[tools]\nmcp = true\n\n[llm]\nbase_url = "${this.address}"\nmodel = "small"\n`;
  }

  stop(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url === "/v1/models") {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ object: "list", data: [{ id: "small", object: "model" }] }));
      return;
    }
    // eVi also asks other kinds of servers how much their model reads; this one is of another kind.
    if (!request.url?.endsWith("/chat/completions")) {
      response.writeHead(404).end();
      return;
    }
    let body = "";
    for await (const part of request) body += String(part);
    this.requests.push(JSON.parse(body) as Model["requests"][number]);
    const reply = this.#replies.shift() ?? { says: "I have nothing more to say." };
    if ("refuses" in reply) {
      response.writeHead(reply.refuses, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: "that key is not known here" } }));
      return;
    }
    response.setHeader("content-type", "text/event-stream");
    const send = (delta: unknown, finish_reason: string | null = null) =>
      response.write(
        `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", model: "small", choices: [{ index: 0, delta, finish_reason }] })}\n\n`,
      );
    if ("calls" in reply) {
      const call = {
        index: 0,
        id: "call_1",
        type: "function",
        function: { name: reply.calls, arguments: JSON.stringify(reply.with) },
      };
      send({ role: "assistant", tool_calls: [call] });
      send({}, "tool_calls");
    } else if ("begins" in reply) {
      response.on("close", () => (this.hungUp += 1));
      send({ role: "assistant", content: reply.begins });
      return;
    } else {
      for (const word of reply.says.match(/\S+\s*/g) ?? []) send({ content: word });
      send({}, "stop");
    }
    response.end("data: [DONE]\n\n");
  }
}
