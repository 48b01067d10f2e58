# fetch.pl URL: gets a page by LWP, which reads no proxy variables unless it is told to.

use strict;
use warnings;
use LWP::UserAgent;

print LWP::UserAgent->new->get($ARGV[0])->as_string;
