import { readFileSync } from 'node:fs';
import type { PeerCertificate } from 'node:tls';
import { UsageError } from '../../../system/base/errors.ts';
import type { DatabaseTarget } from './url.ts';

export interface TlsOptions {
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  readonly rejectUnauthorized: boolean;
  /** Whether the certificate must be one for the host's name. */
  readonly verifyIdentity: boolean;
}

/** The TLS options for both drivers; null: no TLS. */
export function readTlsOptions({ tls, socket }: DatabaseTarget): TlsOptions | null {
  if (tls.mode === 'disable' || socket !== null) return null;
  const ca = read('sslrootcert', tls.rootCertificate);
  const cert = read('sslcert', tls.certificate);
  const key = read('sslkey', tls.key);
  return {
    ...(ca !== null && { ca }),
    ...(cert !== null && key !== null && { cert, key }),
    rejectUnauthorized: tls.mode !== 'require',
    verifyIdentity: tls.mode === 'verify-full',
  };
}

/** For a certificate of whatever name. */
export const acceptAnyName = (_host: string, _certificate: PeerCertificate): undefined => undefined;

function read(option: string, path: string | null): string | null {
  if (path === null) return null;
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(
      `${option} of the database's address cannot be read (${(error as Error).message}); ` +
        'name a file that you may read.',
    );
  }
}
