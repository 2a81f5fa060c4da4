/** The name by which programs of the owner ask at the socket. */
export const AT_SOCKET = 'http://owner.localhost/';

const WITHOUT_BODY = [204, 205, 304];

/** `fetch` through a Unix socket, for Node: its own one knows none. */
export function fetchAt(socketPath: string): (asked: Request) => Promise<Response> {
  // No import: what is built for browsers would look for these modules.
  const { request } = process.getBuiltinModule('node:http');
  const { Readable } = process.getBuiltinModule('node:stream');
  return async (asked) => {
    const body = asked.body === null ? undefined : Buffer.from(await asked.arrayBuffer());
    const { pathname, search, host } = new URL(asked.url);
    const headers = { ...Object.fromEntries(asked.headers), host };
    const { method, signal } = asked;
    return await new Promise((resolve, reject) => {
      const sent = request({ socketPath, path: pathname + search, method, headers, signal }, (answer) => {
        const { statusCode: status = 500 } = answer;
        const told = new Headers();
        for (const [name, values] of Object.entries(answer.headersDistinct))
          for (const value of values ?? []) told.append(name, value);
        const isEmpty = WITHOUT_BODY.includes(status);
        if (isEmpty) answer.resume();
        resolve(new Response(isEmpty ? null : (Readable.toWeb(answer) as ReadableStream), { status, headers: told }));
      });
      sent.on('error', reject);
      sent.end(body);
    });
  };
}
