<?php
// Has WordPress make its tables and posts, and prints the pages to ask for: the first has the ten latest posts, the others have
// one each with what was said of it.
define('WP_INSTALLING', true);
$address = '127.0.0.1';
$_SERVER += ['HTTP_HOST' => $address, 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => $address];

// Nobody is told by mail.
function wp_new_blog_notification(...$ignored) {}

require getcwd() . '/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
wp_install('Served', 'admin', 'admin@localhost.localdomain', true, '', 'secret');
update_option('permalink_structure', '');
switch_theme('twentytwentyone');

// The same words each time.
$state = 7;
function text($nr_words)
{
    global $state;
    $words = [];
    for ($at = 0; $at < $nr_words; $at++) {
        $word = '';
        do {
            $state = $state * 16807 % 2147483647;
            $word .= chr(97 + intdiv($state, 7) % 26);
        } while (intdiv($state, 1009) % 6 && strlen($word) < 12);
        $words[] = $word;
    }
    return implode(' ', $words);
}

$pages = ["http://$address/"];
for ($at = 0; $at < 20; $at++) {
    $post = wp_insert_post([
        'post_title' => ucfirst(text(4)),
        'post_content' => implode("\n\n", array_map('text', [80, 60, 100, 40])),
        'post_status' => 'publish',
        'post_author' => 1,
    ]);
    for ($said = 0; $said < 3; $said++) {
        wp_insert_comment([
            'comment_post_ID' => $post,
            'comment_author' => ucfirst(text(1)),
            'comment_content' => text(30),
            'comment_approved' => 1,
        ]);
    }
    $pages[] = "http://$address/?p=$post";
}
echo implode("\n", $pages), "\n";
