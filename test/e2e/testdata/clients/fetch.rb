# fetch.rb URL: gets a page by Ruby's own client.

require 'net/http'

response = Net::HTTP.get_response(URI(ARGV.first))
puts response.code, "Proxy-Status: #{response['Proxy-Status']}", response.body
