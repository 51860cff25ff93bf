<?php
// date_default_timezone_set("Asia/Tokyo");
date_default_timezone_set('UTC');
$CACHE_DURATION = 7; // seconds
$HOSTS = array("gpu01" => "First Box", "gpu02" => "gpu02",
    "bad_host" => "x");
$SHORT_GPU_NAMES = array("Tesla K20m" => "K20m");
echo "hello";
