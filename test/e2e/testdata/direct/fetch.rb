# fetch.rb URL: gets a page by Net::HTTP, which is told to use no proxy.

require 'net/http'

url = URI(ARGV.first)
response = Net::HTTP.start(url.host, url.port, nil, use_ssl: url.scheme == 'https') { |http| http.get(url.path) }
puts response.code, "Proxy-Status: #{response['Proxy-Status']}", response.body
