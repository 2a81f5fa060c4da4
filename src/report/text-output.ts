/** A stream that text goes to. */
export interface TextOutput {
  /** False once the reader is gone (`runner report | head`): there is nobody left to write for. */
  write(text: string): Promise<boolean>;
}

export function openTextOutput(stream: NodeJS.WritableStream): TextOutput {
  // Without a listener the same error would also end the process with a stack.
  stream.on('error', ignoreGoneReader);
  return { write: (text) => writeText(stream, text) };
}

function writeText(stream: NodeJS.WritableStream, text: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => {
      if (!error) resolve(true);
      else if (isReaderGone(error)) resolve(false);
      else reject(error);
    });
  });
}

function ignoreGoneReader(error: Error): void {
  if (!isReaderGone(error)) throw error;
}

function isReaderGone(error: NodeJS.ErrnoException): boolean {
  return error.code === 'EPIPE' || error.code === 'ERR_STREAM_DESTROYED';
}
