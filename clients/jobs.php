<?php
/**
 * Adds jobs to the queue of folder-runner, and reads their state and result. It needs PDO with SQLite and PHP 7.4, and
 * must run as the user of the runner: nobody else may read its log. It is one file, to be loaded from the package or
 * copied into your site.
 *
 *     require '/home/me/site/node_modules/folder-runner/clients/jobs.php';
 *     $jobs = new FolderRunner\Jobs('/home/me/site');
 *     $id = $jobs->add('mail/welcome', ['to' => $address], ['uniqueKey' => 'welcome:7', 'retries' => 3]);
 *     $job = $jobs->get($id);
 *     echo $job['state'], ' ', json_encode($job['result']);
 */

namespace FolderRunner;

final class Jobs
{
    /** What the runner writes into the file of a log that it has moved away. */
    private const MOVED = 0x666f6d76;

    /** The number of a new job where SQLite would take that of a job that was deleted as the newest one; else null. */
    private const NUMBER = "(SELECT seq + 1 FROM sqlite_sequence
        WHERE name = 'jobs' AND seq >= (SELECT COALESCE(MAX(id), 0) FROM jobs))";

    private \PDO $log;
    private string $file;

    /**
     * @param string $root the folder that holds jobs/
     * @throws \RuntimeException if there is no log yet
     */
    public function __construct(string $root)
    {
        $file = "$root/.runner/activity.db";
        if (!is_file($file)) {
            throw new \RuntimeException("There is no activity log at $file: call `npx folder-runner init` in $root first.");
        }
        $this->file = $file;
        $this->log = new \PDO("sqlite:$file", null, null, [
            \PDO::ATTR_ERRMODE => \PDO::ERRMODE_EXCEPTION,
            \PDO::ATTR_DEFAULT_FETCH_MODE => \PDO::FETCH_ASSOC,
            // How many seconds it waits while others write.
            \PDO::ATTR_TIMEOUT => 15,
            // Without CREATE, so that a missing log is an error instead of an empty database.
            \PDO::SQLITE_ATTR_OPEN_FLAGS => \PDO::SQLITE_OPEN_READWRITE,
        ]);
    }

    /**
     * Adds a job. If an unfinished job has the same unique key, none is added.
     *
     * @param mixed $data the data for the handler; anything that JSON can express
     * @param array $options priority (500, higher first), runAt (DateTimeInterface), retries, retryDelay ('5m'),
     *   uniqueKey, group (one at a time), repeat ('daily at 10:00')
     * @return int the number of the job, or of the one that has its unique key
     * @throws \InvalidArgumentException that names the value that no job can have
     * @throws \RuntimeException after a move of the log to a database server
     */
    public function add(string $name, $data = null, array $options = []): int
    {
        $row = ['name' => $name, 'data' => self::encode($data)] + self::columns($options);
        $names = implode(', ', array_keys($row));
        $values = implode(', ', array_fill(0, count($row), '?'));
        // Together: between the two statements the job of that key could end.
        $this->log->exec('BEGIN IMMEDIATE');
        try {
            $this->demandItsPlace();
            $insert = $this->log->prepare("INSERT INTO jobs (id, $names) VALUES (" . self::NUMBER . ", $values) ON CONFLICT DO NOTHING");
            $insert->execute(array_values($row));
            $id = $insert->rowCount() > 0 ? $this->log->lastInsertId() : $this->idOf($row['unique_key']);
            $this->log->exec('COMMIT');
            return (int) $id;
        } catch (\Exception $error) {
            $this->log->exec('ROLLBACK');
            if (preg_match('/CHECK constraint failed: (.+)/', $error->getMessage(), $found)) {
                throw new \InvalidArgumentException("$name was not added: $found[1].", 0, $error);
            }
            throw $error;
        }
    }

    /**
     * A job; null: there is no job with this number, or it was pruned.
     *
     * @return array|null id, name, state ('queued', 'claimed', 'running', 'retrying', 'finished', 'failed', 'paused',
     *   'cancelled'), data, result, reason, attempts; runAt, createdAt and finishedAt as DateTimeImmutable or null
     * @throws \RuntimeException after a move of the log to a database server
     */
    public function get(int $id): ?array
    {
        $this->demandItsPlace();
        $query = $this->log->prepare('SELECT id, name, state, data, result, reason, attempts,
            run_at, created_at, finished_at FROM jobs WHERE id = ? AND tier IS NULL');
        $query->execute([$id]);
        $row = $query->fetch();
        // A statement that is not read to its end would hold a lock.
        $query->closeCursor();
        return $row === false ? null : [
            'id' => (int) $row['id'],
            'name' => $row['name'],
            'state' => $row['state'],
            'data' => json_decode($row['data'], true),
            'result' => $row['result'] === null ? null : json_decode($row['result'], true),
            'reason' => $row['reason'],
            'attempts' => (int) $row['attempts'],
            'runAt' => self::instant($row['run_at']),
            'createdAt' => self::instant($row['created_at']),
            'finishedAt' => self::instant($row['finished_at']),
        ];
    }

    private function demandItsPlace(): void
    {
        if ((int) $this->log->query('PRAGMA application_id')->fetchAll(\PDO::FETCH_COLUMN)[0] !== self::MOVED) {
            return;
        }
        $place = $this->log->query('SELECT place FROM moved')->fetchAll(\PDO::FETCH_COLUMN)[0];
        throw new \RuntimeException("The log $this->file was moved to $place: jobs added here would never run. " .
            'Add them there by plain SQL, or with `npx folder-runner add`.');
    }

    private function idOf(?string $key): int
    {
        $query = $this->log->prepare('SELECT id FROM jobs WHERE unique_key = ? AND finished_at IS NULL');
        $query->execute([$key]);
        return (int) $query->fetchAll(\PDO::FETCH_COLUMN)[0];
    }

    private static function encode($data): string
    {
        if ($data === null || $data === []) {
            return '{}';
        }
        $flags = JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION;
        try {
            return json_encode($data, $flags);
        } catch (\JsonException $error) {
            throw new \InvalidArgumentException("The data cannot be written as JSON: {$error->getMessage()}.", 0, $error);
        }
    }

    private static function columns(array $options): array
    {
        $known = ['priority', 'runAt', 'retries', 'retryDelay', 'uniqueKey', 'group', 'repeat'];
        foreach (array_diff(array_keys($options), $known) as $option) {
            throw new \InvalidArgumentException("Unknown option $option; expected " . implode(', ', $known) . '.');
        }
        if (isset($options['retryDelay']) && !isset($options['retries'])) {
            throw new \InvalidArgumentException('retryDelay needs retries beside it.');
        }
        if (isset($options['runAt']) && !$options['runAt'] instanceof \DateTimeInterface) {
            $example = "new DateTimeImmutable('+5 minutes')";
            throw new \InvalidArgumentException("runAt must be a DateTimeInterface, such as $example.");
        }
        $retry = isset($options['retries']) ? trim("{$options['retries']} " . ($options['retryDelay'] ?? '')) : null;
        $columns = [
            'priority' => $options['priority'] ?? null,
            'run_at' => isset($options['runAt']) ? self::milliseconds($options['runAt']) : null,
            'retry' => $retry,
            'unique_key' => $options['uniqueKey'] ?? null,
            'concurrency_key' => $options['group'] ?? null,
            'repeat' => $options['repeat'] ?? null,
        ];
        return array_filter($columns, fn ($value) => $value !== null);
    }

    private static function milliseconds(\DateTimeInterface $at): int
    {
        return $at->getTimestamp() * 1000 + (int) $at->format('v');
    }

    private static function instant($milliseconds): ?\DateTimeImmutable
    {
        if ($milliseconds === null) {
            return null;
        }
        $text = sprintf('%d.%03d', intdiv((int) $milliseconds, 1000), (int) $milliseconds % 1000);
        return \DateTimeImmutable::createFromFormat('U.v', $text);
    }
}
