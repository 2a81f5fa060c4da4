import { generateKeyPairSync, sign } from 'node:crypto';

export interface Certificate {
  readonly key: string;
  readonly cert: string;
}

/**
 * A certificate for `localhost` that ends at this time, put together by hand (RFC 5280): Node makes
 * none, `openssl` is not on every machine, and one kept in a file would run out one day.
 */
export function makeSelfSignedCertificate(end: Date): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ecdsaWithSha256 = sequence(objectId([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]));
  const name = sequence(element(0x31, sequence(objectId([0x55, 0x04, 0x03]), element(0x0c, Buffer.from('localhost')))));
  const start = new Date(Math.min(Date.now(), end.getTime()) - 86_400_000);
  const content = sequence(
    element(0xa0, element(0x02, Buffer.from([2]))),
    element(0x02, Buffer.from([1])),
    ecdsaWithSha256,
    name,
    sequence(time(start), time(end)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    element(0xa3, sequence(validFor('localhost'))),
  );
  const signature = sign('sha256', content, privateKey);
  const certificate = sequence(content, ecdsaWithSha256, element(0x03, Buffer.from([0]), signature));
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${certificate.toString('base64')}\n-----END CERTIFICATE-----\n`,
  };
}

function validFor(host: string): Buffer {
  const names = sequence(element(0x82, Buffer.from(host)));
  return sequence(objectId([0x55, 0x1d, 0x11]), element(0x04, names));
}

function time(at: Date): Buffer {
  const digits = at.toISOString().slice(0, 19).replaceAll(/[-:T]/g, '');
  return element(0x18, Buffer.from(`${digits}Z`));
}

function objectId(bytes: readonly number[]): Buffer {
  return element(0x06, Buffer.from(bytes));
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return element(0x30, ...parts);
}

/** Tag, length and content of DER. */
function element(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const size = content.length;
  const length = size < 128 ? [size] : [0x82, size >> 8, size & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
}
