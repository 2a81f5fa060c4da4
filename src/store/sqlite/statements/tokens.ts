import type { HashedToken, Token, TokenStore } from '../../contract.ts';
import type { Statements } from '../session.ts';
import type { Sync } from './areas.ts';

const columns = `id, name, permission, created_at as createdAt, expires_at as expiresAt, last_used_at as lastUsedAt`;

export function tokenStatements(db: Statements): Sync<TokenStore> {
  return {
    add: ({ name, hash, permission, createdAt, expiresAt }) =>
      db.first<Token>(
        `insert into tokens (name, hash, permission, created_at, expires_at) values (?, ?, ?, ?, ?)
         on conflict (name) do nothing returning ${columns}`,
        [name, hash, permission, createdAt, expiresAt],
      ) ?? null,
    list: () => db.all<Token>(`select ${columns} from tokens order by name`),
    byHash: (hash) => db.first<HashedToken>(`select ${columns}, hash from tokens where hash = ?`, [hash]) ?? null,
    byId: (id) => db.first<HashedToken>(`select ${columns}, hash from tokens where id = ?`, [id]) ?? null,
    remove: (name) => db.run('delete from tokens where name = ?', [name]) > 0,
    noteUse: (id, day) => {
      db.run('update tokens set last_used_at = ? where id = ?', [day, id]);
    },
  };
}
