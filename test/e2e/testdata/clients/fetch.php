<?php
// fetch.php curl|stream URL: gets a page by either of PHP's clients. A stream
// takes its proxy from the script alone.

[, $kind, $url] = $argv;
if ($kind === 'curl') {
    $curl = curl_init($url);
    curl_setopt_array($curl, [CURLOPT_RETURNTRANSFER => true, CURLOPT_HEADER => true]);
    $answer = curl_exec($curl);
    echo $answer === false ? curl_error($curl) : $answer;
} else {
    $context = stream_context_create(['http' => [
        'proxy' => str_replace('http://', 'tcp://', getenv('http_proxy')),
        'request_fulluri' => true,
        'ignore_errors' => true,
    ]]);
    $body = file_get_contents($url, false, $context);
    echo implode("\n", $http_response_header), "\n\n", $body;
}
