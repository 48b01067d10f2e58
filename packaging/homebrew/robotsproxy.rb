# Builds robotsproxy from the source of a release, for Homebrew on macOS and Linux.
#
#   brew tap-new NAME/local && cp packaging/homebrew/robotsproxy.rb "$(brew --repository NAME/local)/Formula/"
#   brew install --build-from-source NAME/local/robotsproxy
class Robotsproxy < Formula
  desc "Forward proxy that makes any bot obey robots.txt"
  # Nothing is published yet: these three are for the first release to fill in.
  homepage "https://robotsproxy.example/"
  url "https://robotsproxy.example/robotsproxy-0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"

  depends_on "go" => :build

  def install
    ENV["CGO_ENABLED"] = "0"
    # The archive is no repository, so the linker says which version this is.
    build = Utils.safe_popen_read("go", "list", "./internal/build").chomp
    system "go", "build", *std_go_args(ldflags: "-s -w -X #{build}.version=v#{version}")

    generate_completions_from_executable(bin/"robotsproxy", "completion")
    system bin/"robotsproxy", "man", buildpath/"man"
    man1.install Dir["man/*.1"]
    man5.install Dir["man/*.5"]

    (buildpath/"config.yaml").write <<~YAML
      # robotsproxy as a service of this user. Keys that are not here keep their defaults:
      # man robotsproxy.yaml
    YAML
    pkgetc.install "config.yaml"
  end

  def caveats
    <<~EOS
      The service reads #{pkgetc}/config.yaml. To point this shell at it:
        eval "$(robotsproxy env --config #{pkgetc}/config.yaml)"
    EOS
  end

  service do
    run [opt_bin/"robotsproxy", "serve", "--config", etc/"robotsproxy/config.yaml"]
    keep_alive true
    log_path var/"log/robotsproxy.log"
    error_log_path var/"log/robotsproxy.log"
  end

  test do
    assert_match "robotsproxy v#{version} ", shell_output("#{bin}/robotsproxy --version")

    (testpath/"robots.txt").write <<~EOS
      User-agent: *
      Disallow: /private
    EOS
    check = "#{bin}/robotsproxy check --robots robots.txt --agent ExampleBot https://www.example.com"
    assert_match "no rule of the group of * in robots.txt matches", shell_output("#{check}/open")
    assert_match '"Disallow: /private" on line 2', shell_output("#{check}/private", 1)
  end
end
