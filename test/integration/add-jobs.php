<?php
// php add-jobs.php <activity.db> <how many>: adds jobs as an application would, by plain SQL.
[, $file, $count] = $argv;

$db = new PDO("sqlite:$file", null, null, [
    PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
    // Without CREATE: a wrong path is an error then, and no empty database.
    PDO::SQLITE_ATTR_OPEN_FLAGS => PDO::SQLITE_OPEN_READWRITE,
]);
$db->exec('PRAGMA busy_timeout = 15000');

for ($n = 1; $n <= $count; $n++) {
    $db->exec("INSERT INTO jobs (name, data) VALUES ('mail/welcome', '{\"n\":$n}')");
}

// PDO binds all of these as text; the columns make numbers of them.
$add = $db->prepare('INSERT INTO jobs (name, data, priority, run_at) VALUES (?, ?, ?, ?)');
$runAt = (int) (microtime(true) * 1000) + 1500;
$add->execute(['mail/later', json_encode(['to' => "O'Hara <a@example.org>", 'ü' => 'ß']), 750, $runAt]);

// Not OR IGNORE, which would also pass over data that is no JSON.
$once = $db->prepare('INSERT INTO jobs (name, unique_key, run_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING');
foreach ([1, 2] as $try) {
    $once->execute(['mail/once', 'once:7', $runAt]);
    echo "once $try: ", $once->rowCount(), "\n";
}

$wrong = [
    'data' => "INSERT INTO jobs (name, data) VALUES ('mail/welcome', '{\"n\":')",
    'data once' => "INSERT INTO jobs (name, data) VALUES ('mail/welcome', '{') ON CONFLICT DO NOTHING",
    'priority' => "INSERT INTO jobs (name, priority) VALUES ('mail/welcome', 'high')",
    'run_at' => "INSERT INTO jobs (name, run_at) VALUES ('mail/welcome', '2026-12-24 18:00:00')",
    'name' => "INSERT INTO jobs (name) VALUES ('')",
];
foreach ($wrong as $what => $statement) {
    try {
        $db->exec($statement);
        echo "$what: added\n";
    } catch (PDOException $e) {
        echo "$what: ", $e->getMessage(), "\n";
    }
}

// All or none.
$db->exec('BEGIN IMMEDIATE');
$db->exec("INSERT INTO jobs (name) VALUES ('mail/never')");
$db->exec('ROLLBACK');
