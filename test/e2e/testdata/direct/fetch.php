<?php
// fetch.php URL: gets a page by a stream, which reads no proxy variables.

$context = stream_context_create(['http' => ['ignore_errors' => true]]);
$body = file_get_contents($argv[1], false, $context);
echo implode("\n", $http_response_header), "\n\n", $body;
