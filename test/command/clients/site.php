<?php
// php site.php <clients> <add|get|refuse> [number…]: what a site does with the file for PHP.
[, $clients, $what] = $argv;
require "$clients/jobs.php";

function tell($value): void
{
    echo json_encode($value, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES), "\n";
}

$jobs = new FolderRunner\Jobs('.');

if ($what === 'add') {
    $options = ['uniqueKey' => 'welcome:7', 'retries' => 2, 'retryDelay' => '5m'];
    tell($jobs->add('mail/welcome', ['to' => 'Zoë'], $options));
    tell($jobs->add('mail/welcome', ['to' => 'again'], ['uniqueKey' => 'welcome:7']));
    tell($jobs->add('mail/welcome', null, ['priority' => 700]));
    $later = new DateTimeImmutable('2030-01-02T03:04:05.678Z');
    tell($jobs->add('mail/welcome', ['to' => 'later'], ['runAt' => $later, 'group' => 'g', 'repeat' => 'daily at 10:00']));
}

if ($what === 'get') {
    foreach (array_slice($argv, 3) as $number) {
        $job = $jobs->get((int) $number);
        if ($job !== null) {
            $job['data'] = (object) $job['data'];
            foreach (['runAt' => 'run_at', 'createdAt' => 'created_at', 'finishedAt' => 'finished_at'] as $key => $name) {
                $job[$name] = $job[$key] === null ? null : $job[$key]->format('Y-m-d\TH:i:s.vP');
                unset($job[$key]);
            }
        }
        tell($job);
    }
}

if ($what === 'refuse') {
    foreach ([['priority' => 'high'], ['retryDelay' => '5m'], ['runAt' => '+5 minutes']] as $options) {
        try {
            tell($jobs->add('mail/welcome', [], $options));
        } catch (InvalidArgumentException $error) {
            tell($error->getMessage());
        }
    }
    tell($jobs->add('mail/welcome'));
}
